#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "core/geometry.h"
#include "ffmpeg/decode.h"
#include "media/options.h"

namespace spdl {

// FFmpeg counts the pixels of padded rows.
inline constexpr std::int64_t kPaddingPixels = std::int64_t{64} * kMaxSide;

// FFmpeg inflates data beside the picture without any limit: a megabyte may become a gigabyte beside a picture of a few
// pixels, which no limit of pixels forbids. And where a file does not say all that it should, FFmpeg goes on with
// memory that nobody has written, and shows that as pixels or in messages. These functions refuse such files.

// Checks a container for QuickTime's compressed headers. Throws MediaError.
void check_container(Bytes bytes);

// Checks an AVIF or HEIF file for the place of its picture. Throws MediaError.
void check_items(Bytes bytes);

// Checks an image before it is decoded: a PNG for compressed texts and profiles, a TIFF for the colours of a palette
// and for strips that end early. Throws MediaError.
void check_picture(const ImagePacket& image, const DecodeOptions& options);

}  // namespace spdl
