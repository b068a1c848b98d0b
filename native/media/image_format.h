#pragma once

#include <string>
#include <string_view>

#include "core/bytes.h"

namespace spdl {

// The formats of images that are read.
enum class ImageFormat {
    kUnknown,
    kJpeg,
    kPng,
    kGif,
    kBmp,
    kTiff,
    kWebp,
    kAvif,
    kHeif,
    kJpeg2000,
    kQoi,
    kPbm,
    kPgm,
    kPpm,
};

// Returns the format whose signature the bytes begin with.
[[nodiscard]] ImageFormat image_format(Bytes bytes) noexcept;

// Returns the name of a format that is known: "GIF".
[[nodiscard]] std::string_view format_name(ImageFormat format) noexcept;

// Says why bytes of no known format are not read: what they seem to be, which formats are read, and what to do.
[[nodiscard]] std::string describe_unknown_format(Bytes bytes);

}  // namespace spdl
