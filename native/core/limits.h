#pragma once

#include <cstddef>
#include <cstdint>

namespace spdl {

// Two gigabytes less one: FFmpeg counts the bytes of a packet in an int.
inline constexpr std::size_t kMaxEncodedBytes = 0x7fffffff;

// The side of the largest JPEG.
inline constexpr int kMaxSide = 65535;

// The most pixels of an output, and of an input unless the user gives another limit. Pillow refuses an image as a
// decompression bomb above about this size (twice its Image.MAX_IMAGE_PIXELS).
inline constexpr std::int64_t kMaxPixels = 178'000'000;

// The most bytes that a single large image may leave in a thread's buffers for the next image.
inline constexpr std::size_t kKeptBytes = std::size_t{1} << 24;

// The most bytes that compressed texts, profiles and headers may inflate to beside a picture. The largest profiles have
// a few MB.
inline constexpr std::size_t kMaxMetadata = std::size_t{64} << 20;

// The limit that libjpeg-turbo advises against progressive files whose scans cost more than they show.
inline constexpr int kMaxJpegScans = 500;

// The limit for large images, whose scans take long. Encoders that try for the smallest file write about twenty.
inline constexpr int kMaxLargeJpegScans = 64;
inline constexpr std::int64_t kLargeJpeg = 20'000'000;  // An image with as many pixels is large.

}  // namespace spdl
