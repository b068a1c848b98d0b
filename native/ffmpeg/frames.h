#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/bytes.h"
#include "core/geometry.h"
#include "ffmpeg/libav.h"
#include "media/packet.h"
#include "media/place.h"

namespace spdl {

// Decoders pass on numbers of the file as colour spaces, even if there is no such colour space. Takes those for not
// specified.
void forget_unknown_colors(AVFrame& frame);

// The factors of a frame's colour matrix, as sws_getCoefficients returns them, and its range.
struct FrameColors {
    const int* matrix;
    bool full_range;
};

// Returns the colours of a frame. Missing properties are interpreted as the ffmpeg command does.
FrameColors frame_colors(const AVFrame& frame);

// Has a conversion of frames like this one follow their colours.
void follow_colors(SwsContext& context, const AVFrame& frame);

// Returns whether pixels of one format can be copied into the other without a loss: channels or bytes in another order,
// gray as three equal channels, or a new alpha channel, which is opaque.
bool repacks(AVPixelFormat from, AVPixelFormat to);

// Returns the format with the same channels of 8 bits, for pixels of 16 bits a sample: red, green and blue, or gray,
// with or without alpha. AV_PIX_FMT_NONE for all others.
AVPixelFormat narrow_format(AVPixelFormat format);

// Copies the pixels into a frame of the same size, whose format is the same or one that they can be repacked to. An
// 8-bit sample gets the upper half of a 16-bit one.
void repack(const AVFrame& from, AVFrame& to);

// Converts frames of any pixel format to rows of three-byte pixels. Alpha is dropped, and so is the lower half of
// 16-bit samples, as in libpng and Pillow. One thread at a time.
class PixelConverter {
  public:
    // Passes the pixels within `box` to the sink. Throws MediaError if libswscale cannot convert the format.
    void convert(const AVFrame& frame, const Box& box, Channels channels, RowSink& sink);

  private:
    void prepare(const AVFrame& frame, AVPixelFormat to);
    const AVFrame& narrow(const AVFrame& frame);

    SwsContextPtr context_;
    FramePtr converted_;
    FramePtr narrowed_;
};

// Gives a frame memory of another owner's, which libav does not write to. The last frame that uses it drops the owner,
// in any thread.
void borrow(AVFrame& frame, std::shared_ptr<const void> owner, Bytes memory);

// Returns whether the frame has such memory. Filters may read a little beyond the end of a frame, which is safe only in
// libav's own.
bool is_borrowed(const AVFrame& frame);

// Returns a frame with the same content in libav's own memory.
FramePtr copy_frame(const AVFrame& frame);

// Gives a frame, which has a format and a size, memory for its pixels, as av_frame_get_buffer does. That of large
// pictures comes from blocks that are used again. Throws std::bad_alloc.
void allocate_picture(AVFrame& frame);

// Returns FFmpeg's name of a layout, such as "stereo", in full: for many channels it is long. "" if it has none.
std::string channel_layout_text(const AVChannelLayout& layout);

// Returns the format of FFmpeg's that has this name. Throws MediaError if none exists.
AVPixelFormat find_pixel_format(const std::string& name);

// Returns a frame that shows pixels in memory without gaps between rows and planes. They must stay in place as long as
// it lives. Throws MediaError if they are not as many bytes as the picture takes.
FramePtr show_pixels(Bytes pixels, AVPixelFormat format, Size size);

// How a frame's pixels lie in an array: (H, W, C) for packed formats, (C, H, W) for planar ones without subsampling,
// (1, rows, W) for planar ones with it, the planes one after the other.
struct FrameLayout {
    std::vector<std::size_t> shape;
    ElementType type = ElementType::kUint8;

    struct Plane {
        std::size_t row_bytes;
        int rows;
    };
    std::vector<Plane> planes;
    bool swap_bytes = false;  // Samples are stored big-endian.

    [[nodiscard]] std::size_t bytes() const;
};

// Throws MediaError for formats whose samples are not whole bytes or that do not fill an array.
FrameLayout frame_layout(const AVFrame& frame);

void copy_frame(const AVFrame& frame, const FrameLayout& layout, std::uint8_t* to);

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

// Returns FFmpeg's format of rows of such pixels, a byte for each channel.
AVPixelFormat packed_format(Channels channels);

// Returns the name of a pixel format; "unknown" if it has none.
const char* ffmpeg_format_name(int format);

// Returns the name of a sample format; "unknown" if it has none.
const char* sample_format_name(int format);

// Return texts for messages: "640x480 yuv420p", and "2 channels of fltp at 44100 Hz".
std::string describe_picture(int width, int height, int format);
std::string describe_sound(int channels, int rate, int format);

// A FrameMaker. If the elements of the format are bytes, the frame can become an array without a copy.
std::unique_ptr<Frame> make_packed_frame(Size size, const ArrayFormat& format);

// A StoredFrameMaker.
std::unique_ptr<Frame> make_stored_frame(Size size, const char* pixel_format);

// Returns the frame as one array. It is made in `memory` if there is one; otherwise it is not copied if the frame
// already is an array.
Buffer frame_to_array(std::unique_ptr<Frame> frame, const Memory* memory);

// Returns the frames, which must have one size and pixel format, one after the other along a new first axis.
Buffer frames_to_array(std::span<const Frame* const> frames, const Memory* memory);

}  // namespace spdl
