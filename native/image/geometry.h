#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace spdl {

struct Size {
    int width = 0;
    int height = 0;
    bool operator==(const Size&) const = default;
};

// How an image comes to the size that was asked for.
enum class Fit {
    kStretch,  // Both sides are scaled on their own.
    kPad,      // The whole image, its aspect ratio kept, centred on black.
};

std::optional<Fit> parse_fit(std::string_view name);

// Where in the output the resized image lies.
struct Placement {
    Size canvas;
    Size image;
    int left = 0;
    int top = 0;
};

// The output for an image of size `source`. A side of `target` that is 0 was left open: the image's own for kStretch,
// whatever keeps the aspect ratio for kPad. The rounding is that of FFmpeg's filters
// scale=...:force_original_aspect_ratio=decrease and pad=...:x=-1:y=-1, except that no side becomes 0.
Placement place(Size source, Size target, Fit fit);

// Throws MediaError unless an image of this size may be decoded or produced.
void check_size(Size size, const char* what);

inline std::size_t rgb_bytes(Size size) {
    return 3 * static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
}

}  // namespace spdl
