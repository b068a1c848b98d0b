#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spdl {

// Two gigabytes less one: FFmpeg counts the bytes of a packet in an int.
inline constexpr std::size_t kMaxEncodedBytes = 0x7fffffff;

// The side of the largest JPEG.
inline constexpr int kMaxSide = 65535;

// The most pixels of an output, and of an input unless the user gives another limit. Pillow refuses an image as a
// decompression bomb above about this size (twice its Image.MAX_IMAGE_PIXELS).
inline constexpr std::int64_t kMaxPixels = 178'000'000;

// The most bytes that compressed texts, profiles and headers may inflate to beside a picture. The largest profiles have
// a few MB.
inline constexpr std::size_t kMaxMetadata = std::size_t{64} << 20;

// The limit that libjpeg-turbo advises against progressive files whose scans cost more than they show.
inline constexpr int kMaxJpegScans = 500;

// The limit for large images, whose scans take long. Encoders that try for the smallest file write about twenty.
inline constexpr int kMaxLargeJpegScans = 64;
inline constexpr std::int64_t kLargeJpeg = 20'000'000;  // An image with as many pixels is large.

struct Size {
    int width = 0;
    int height = 0;
    bool operator==(const Size&) const = default;
};

// A rectangle of pixels; `right` and `bottom` lie just outside it.
struct Box {
    int left = 0;
    int top = 0;
    int right = 0;
    int bottom = 0;

    [[nodiscard]] Size size() const { return {right - left, bottom - top}; }
    bool operator==(const Box&) const = default;
};

inline Box whole(Size size) {
    return {0, 0, size.width, size.height};
}

inline Box moved(const Box& box, int right, int down) {
    return {box.left + right, box.top + down, box.right + right, box.bottom + down};
}

// Returns the common part of two boxes; one whose sides are not positive if they have none.
inline Box common(const Box& one, const Box& other) {
    return {std::max(one.left, other.left), std::max(one.top, other.top), std::min(one.right, other.right),
            std::min(one.bottom, other.bottom)};
}

// Returns the size for messages: "640x480".
std::string dimensions(Size size);

// Where the pixels of a moved image come from: the one at (x, y) shows the place (xx * x + xy * y + dx,
// yx * x + yy * y + dy) of the image before. Both are counted in pixels from the middle of the first one.
struct AffineMap {
    double xx, xy, dx;
    double yx, yy, dy;
};

// How an image is brought to the target size.
enum class Fit {
    kStretch,  // Each side is scaled on its own.
    kPad,      // The whole image, with its aspect ratio, centred on black.
    kCrop,     // The image covers the size, with its aspect ratio; the rest is cut off on both sides.
};

std::optional<Fit> parse_fit(std::string_view name);

// The place of the resized image in the output. If it reaches beyond, `left` and `top` are negative.
struct Placement {
    Size canvas;
    Size image;
    int left = 0;
    int top = 0;
};

// Returns the output for an image of size `source`. A side of `target` that is 0 is open: for kStretch it becomes the
// image's own, for the others it keeps the aspect ratio. The rounding follows FFmpeg's filters
// scale=...:force_original_aspect_ratio=decrease (or increase), pad=...:x=-1:y=-1 and crop, except that no side becomes
// 0.
Placement place(Size source, Size target, Fit fit);

// Cuts the centre of this size out of the canvas, as FFmpeg's crop filter does; a side of 0 stays. `grid` is how many
// pixels share a chroma sample, which that filter does not cut in two. Throws MediaError if the canvas is smaller.
Placement cut_center(Placement placement, Size size, Size grid);

// Throws MediaError if an output must not have this size.
void check_size(Size size, const char* what);

// Throws MediaError if an image that claims this size must not be decoded.
void check_source_size(Size size, const char* what, std::int64_t max_pixels);

// The bytes of a row of packed pixels.
inline std::size_t rgb_bytes(int width) {
    return 3 * static_cast<std::size_t>(width);
}

inline std::size_t rgb_bytes(Size size) {
    return 3 * static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
}

// The bytes of a pixel. Between decoder and output a pixel always has three; a gray one has its value three times.
enum class Channels { kRgb, kBgr, kGray };

constexpr int channel_count(Channels channels) {
    return channels == Channels::kGray ? 1 : 3;
}

// The names are FFmpeg's names of pixel formats.
std::optional<Channels> parse_channels(std::string_view pixel_format);
const char* pixel_format_name(Channels channels);

}  // namespace spdl
