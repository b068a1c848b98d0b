#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "av/frame_reader.h"
#include "av/muxer.h"
#include "core/buffer.h"
#include "core/bytes.h"
#include "core/geometry.h"
#include "ffmpeg/libav.h"
#include "image/planes/plane_kernels.h"
#include "media/options.h"

namespace spdl {

// Returns frames as one array, made in `memory` if there is one: (N, H, W, C) and the like for pictures; for sound
// (channels, samples) if each channel has its own plane, otherwise (samples, channels).
Buffer to_array(const FrameList& list, const Memory* memory);

// Returns the arrays of several lists, which must be alike, along a new first axis.
Buffer to_array(std::span<const FrameList> lists, const Memory* memory);

// Frames that show an array of another owner's, without a copy. libav does not write to it. `owner` keeps the array in
// place; the last frame that shows it drops the owner, in any thread.

// Returns the pictures that lie one after the other in the array, without gaps. The first is shown at `time`, in units
// of one frame. Throws MediaError if the array is not of that many bytes.
FrameList show_pictures(std::shared_ptr<const void> owner, Bytes array, const std::string& pixel_format, int width,
                        int height, int count, AVRational frame_rate, std::int64_t time);

// Returns the sound in the array: one channel after the other if the format has a plane for each, otherwise with the
// channels of each moment side by side. It is heard from `time` on, in samples. Throws MediaError.
FrameList show_sound(std::shared_ptr<const void> owner, Bytes array, const std::string& sample_format, int channels,
                     int samples, int sample_rate, std::int64_t time);

// Throws that pictures which follow each other have these sizes.
[[noreturn]] void throw_size_change(Size from, Size to);

// One array of pictures, with the size of the first one written. All errors are MediaErrors.
class PictureArray {
  public:
    // The options and the memory, null for new memory, must live as long as the array is being made.
    PictureArray(const LoadOptions& options, int rotation, std::size_t count, const Memory* memory);

    void write(const AVFrame& frame, std::size_t row);

    // Makes a row equal to another one.
    void copy(std::size_t from, std::size_t to);

    // Returns the array, whose rows must have been written.
    Buffer take() { return std::move(array_); }

  private:
    const LoadOptions& options_;
    PictureWriter writer_;
    std::size_t count_;
    const Memory* memory_;
    Buffer array_;
    Size canvas_;
    std::size_t row_bytes_ = 0;
};

// Returns a frame as planes of bytes, which belong to it, with its colours: 8 bits without alpha, gray or YUV, with any
// subsampling. Chroma lies in the middle of its pixels, as FFmpeg's filter scale takes it. Returns nothing for all
// other frames.
std::optional<YuvImage> yuv_planes(const AVFrame& frame);

}  // namespace spdl
