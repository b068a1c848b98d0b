#include "image/geometry.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/limits.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// a * b / c to the nearest integer, halves away from zero, as FFmpeg's av_rescale.
int rescale(int a, int b, int c) {
    const std::int64_t product = static_cast<std::int64_t>(a) * b;
    return static_cast<int>(std::min<std::int64_t>((product + c / 2) / c, INT32_MAX));
}

}  // namespace

std::optional<Fit> parse_fit(std::string_view name) {
    if (name == "stretch") {
        return Fit::kStretch;
    }
    if (name == "pad") {
        return Fit::kPad;
    }
    return std::nullopt;
}

Placement place(Size source, Size target, Fit fit) {
    Size image{target.width == 0 ? source.width : target.width, target.height == 0 ? source.height : target.height};
    if (fit == Fit::kStretch) {
        return {image, image, 0, 0};
    }
    const Size bound = image;
    image.width = std::clamp(rescale(bound.height, source.width, source.height), 1, bound.width);
    image.height = std::clamp(rescale(bound.width, source.height, source.width), 1, bound.height);
    const Size canvas{target.width == 0 ? image.width : target.width,
                      target.height == 0 ? image.height : target.height};
    return {canvas, image, (canvas.width - image.width) / 2, (canvas.height - image.height) / 2};
}

void check_size(Size size, const char* what) {
    if (size.width < 1 || size.height < 1 || size.width > kMaxSide || size.height > kMaxSide ||
        static_cast<std::int64_t>(size.width) * size.height > kMaxPixels) {
        throw MediaError(std::string(what) + " of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                         " is outside what is accepted: sides from 1 to " + std::to_string(kMaxSide) + ", at most " +
                         std::to_string(kMaxPixels) + " pixels");
    }
}

}  // namespace spdl
