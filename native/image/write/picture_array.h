#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "media/array_format.h"

namespace spdl {

// Pictures in memory, (N, C, H, W), in any order of memory. Values are bytes, or 32-bit floats from 0 to 1.
struct PictureArray {
    const std::uint8_t* data = nullptr;
    std::array<std::size_t, 4> shape{};
    std::array<std::ptrdiff_t, 4> strides{};  // In bytes.
    bool floats = false;

    [[nodiscard]] std::size_t size() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

// Writes pictures in an array's format, one behind the other. Bytes become what they become where images are loaded;
// floats are multiplied by `scale`, and the format's offset is added. Pictures have the format's channels or, if it
// treats all channels alike, any number; floats do not become bytes. Returns whether all floats are from 0 to 1, or
// overshoot by no more than resizes and noise do.
bool write_pictures(const PictureArray& pictures, const ArrayFormat& format, const PerChannel& scale, std::uint8_t* to);

}  // namespace spdl
