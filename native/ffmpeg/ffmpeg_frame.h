#pragma once

#include "ffmpeg/libav.h"
#include "media/frame.h"

namespace spdl {

// One of FFmpeg's frames.
class FfmpegFrame final : public Frame {
  public:
    explicit FfmpegFrame(FramePtr frame, AVRational time_base = {0, 1});

    [[nodiscard]] Picture picture() const override;
    [[nodiscard]] int num_planes() const override;
    [[nodiscard]] std::size_t bytes() const override;
    [[nodiscard]] FrameProperties properties() const override;
    void set_properties(const FrameProperties& properties) override;
    std::uint8_t* pixels() noexcept override { return frame_->data[0]; }
    [[nodiscard]] std::unique_ptr<Frame> clone() const override;

    [[nodiscard]] const AVFrame& get() const { return *frame_; }
    [[nodiscard]] AVRational time_base() const { return time_base_; }
    FramePtr take() { return std::move(frame_); }

  private:
    FramePtr frame_;
    AVRational time_base_;
};

// Returns the frame as one of FFmpeg's. Throws std::bad_cast if another library made it.
FfmpegFrame& as_ffmpeg(Frame& frame);
const FfmpegFrame& as_ffmpeg(const Frame& frame);

// Returns the name of a pixel format; "unknown" if it has none.
const char* ffmpeg_format_name(int format);

}  // namespace spdl
