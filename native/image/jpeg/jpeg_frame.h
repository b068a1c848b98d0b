#pragma once

#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// What the first frame header of a JPEG says of the way in which the image is coded.
struct JpegFrame {
    std::uint8_t marker = 0xc0;  // The kind of frame, by its marker's second byte.
    int bits = 8;                // Of a sample.
    int components = 3;

    [[nodiscard]] bool is_jpeg_ls() const noexcept { return marker == 0xf7; }
    [[nodiscard]] bool lossless() const noexcept { return (marker & 3U) == 3; }
    [[nodiscard]] bool arithmetic() const noexcept { return (marker & 8U) != 0; }

    // Returns whether it is one of those that every version of libjpeg-turbo decodes, and FFmpeg, too.
    [[nodiscard]] bool common() const noexcept { return bits == 8 && !is_jpeg_ls() && !lossless() && !arithmetic(); }
};

// Returns the frame of a JPEG, or a common one if none is found: that is then left to libjpeg-turbo.
JpegFrame jpeg_frame(Bytes jpeg) noexcept;

}  // namespace spdl
