#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/limits.h"

namespace spdl {

struct Size {
    int width = 0;
    int height = 0;
    bool operator==(const Size&) const = default;
};

// A rectangle of pixels; `right` and `bottom` lie just outside.
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

// How an image comes to the size that was asked for.
enum class Fit {
    kStretch,  // Both sides are scaled on their own.
    kPad,      // The whole image, its aspect ratio kept, centred on black.
    kCrop,     // Its aspect ratio kept, it covers the size, and what is beyond is cut off on both sides.
};

std::optional<Fit> parse_fit(std::string_view name);

// Where the resized image lies in the output, or beyond it: then `left` and `top` are negative.
struct Placement {
    Size canvas;
    Size image;
    int left = 0;
    int top = 0;
};

// The output for an image of size `source`. A side of `target` that is 0 was left open: the image's own for kStretch,
// whatever keeps the aspect ratio for the others. The rounding is that of FFmpeg's filters
// scale=...:force_original_aspect_ratio=decrease (or increase), pad=...:x=-1:y=-1 and crop, except that no side becomes
// 0.
Placement place(Size source, Size target, Fit fit);

// Cuts the centre of this size out of the canvas, as FFmpeg's crop filter does; a side of 0 stays. `grid` is how many
// pixels share a chroma sample, which that filter does not cut in two. Throws MediaError where the canvas is smaller.
Placement cut_center(Placement placement, Size size, Size grid);

// Throws MediaError unless an image of this size may be produced.
void check_size(Size size, const char* what);

// Throws MediaError unless one that says it has this size may be decoded.
void check_source_size(Size size, const char* what, std::int64_t max_pixels);

inline std::size_t rgb_bytes(Size size) {
    return 3 * static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
}

}  // namespace spdl
