#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
    kPpm,  // The last; see kImageFormats.
};
constexpr std::size_t kImageFormats = static_cast<std::size_t>(ImageFormat::kPpm) + 1;

// Returns the format whose signature the bytes begin with.
[[nodiscard]] ImageFormat image_format(Bytes bytes) noexcept;

// Returns the name of a format that is known: "GIF".
[[nodiscard]] std::string_view format_name(ImageFormat format) noexcept;

// Says why bytes of no known format are not read: what they seem to be, which formats are read, and what to do.
[[nodiscard]] std::string describe_unknown_format(Bytes bytes);

class Packet;

// An image as a decoder gets it: the bytes of a file, or the packet that a demuxer made of them.
struct EncodedImage {
    Bytes bytes;                          // Of the packet, if there is one.
    std::string_view codec;               // FFmpeg's name, if a demuxer has found it; then no other demuxer is needed.
    const Packet* packet = nullptr;       // From the demuxer of a backend.
    std::optional<std::uint64_t> page{};  // The directory of a TIFF's page; without one, the file's picture.
};

}  // namespace spdl
