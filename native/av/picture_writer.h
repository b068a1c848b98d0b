#pragma once

#include <cstdint>
#include <optional>

#include "av/video_scaler.h"
#include "core/geometry.h"
#include "ffmpeg/ffmpeg_decoder.h"
#include "ffmpeg/libav.h"
#include "image/load/thread_scratch.h"
#include "image/plan/image_plan.h"
#include "image/planes/yuv_image.h"
#include "media/load_options.h"

namespace spdl {

// Writes the pictures of a video to memory: resized, turned and normalised, as images are. Unless the options ask for
// exact ones, planes of YUV are resized before their conversion to RGB, and FFmpeg scales all other pictures. It
// belongs to one thread.
class PictureWriter {
  public:
    // `rotation` turns pictures clockwise by so many degrees if the options ask for upright ones. The options must live
    // as long as the writer.
    PictureWriter(const LoadOptions& options, int rotation);

    // Opens the next picture, which must not change until it is written. Returns the size that it is written with.
    Size open(const AVFrame& frame);

    // Writes the open picture.
    void write(std::uint8_t* to);

  private:
    [[nodiscard]] bool open_planes(const AVFrame& frame, const Orientation& orientation);
    [[nodiscard]] FramePtr scaled(const AVFrame& frame, const Orientation& orientation);

    const LoadOptions& options_;
    int rotation_;
    ImagePlan plan_;
    std::optional<YuvImage> planes_;  // If the open picture is resized as planes.
    VideoScaler scaler_;
    FfmpegDecoder decoder_;
    ThreadScratch& scratch_;
};

}  // namespace spdl
