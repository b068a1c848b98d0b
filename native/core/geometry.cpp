#include "core/geometry.h"

#include <cmath>
#include <limits>

#include "core/errors.h"

namespace spdl {
namespace {

// a * b / c to the nearest integer, halves away from zero, as FFmpeg's av_rescale.
int rescale(int a, int b, int c) {
    const std::int64_t product = static_cast<std::int64_t>(a) * b;
    return static_cast<int>(std::min<std::int64_t>((product + c / 2) / c, INT32_MAX));
}

// To the nearest integer, halves to even: as FFmpeg's crop filter and Python's round().
int half(int length) {
    return static_cast<int>(std::nearbyint(length / 2.0));
}

bool is_accepted(Size size, std::int64_t max_pixels) {
    return size.width >= 1 && size.height >= 1 && size.width <= kMaxSide && size.height <= kMaxSide &&
           static_cast<std::int64_t>(size.width) * size.height <= max_pixels;
}

[[noreturn]] void refuse(Size size, const char* what, std::int64_t max_pixels, const char* remedy) {
    throw MediaError(std::string(what) + " of " + dimensions(size) + " is outside what is accepted: sides from 1 to " +
                     std::to_string(kMaxSide) + ", at most " + std::to_string(max_pixels) + " pixels" + remedy);
}

}  // namespace

std::string dimensions(Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

std::optional<Fit> parse_fit(std::string_view name) {
    return name == "stretch" ? std::optional(Fit::kStretch)
           : name == "pad"   ? std::optional(Fit::kPad)
           : name == "crop"  ? std::optional(Fit::kCrop)
                             : std::nullopt;
}

Placement place(Size source, Size target, Fit fit) {
    Size image{target.width == 0 ? source.width : target.width, target.height == 0 ? source.height : target.height};
    if (fit == Fit::kStretch) {
        return {image, image, 0, 0};
    }
    const Size bound = image;
    const Size scaled{rescale(bound.height, source.width, source.height),
                      rescale(bound.width, source.height, source.width)};
    // If one side is left open, there is nothing to cover beyond the other side.
    if (fit == Fit::kPad || target.width == 0 || target.height == 0) {
        image = {std::clamp(scaled.width, 1, bound.width), std::clamp(scaled.height, 1, bound.height)};
    } else {
        image = {std::max(scaled.width, bound.width), std::max(scaled.height, bound.height)};
    }
    const Size canvas{target.width == 0 ? image.width : target.width,
                      target.height == 0 ? image.height : target.height};
    if (fit == Fit::kCrop) {
        return {canvas, image, -half(image.width - canvas.width), -half(image.height - canvas.height)};
    }
    return {canvas, image, (canvas.width - image.width) / 2, (canvas.height - image.height) / 2};
}

Placement cut_center(Placement placement, Size size, Size grid) {
    const auto align = [](int pixels, int step) { return pixels / step * step; };
    const Size all = placement.canvas;
    const Size asked{size.width == 0 ? all.width : size.width, size.height == 0 ? all.height : size.height};
    const Size cut{align(asked.width, grid.width), align(asked.height, grid.height)};
    if (asked.width > all.width || asked.height > all.height || cut.width == 0 || cut.height == 0) {
        throw MediaError("cannot crop " + dimensions(asked) + " pixels out of " + dimensions(all) +
                         ": scale it to at least that size first");
    }
    placement.left -= align(half(all.width - asked.width), grid.width);
    placement.top -= align(half(all.height - asked.height), grid.height);
    placement.canvas = cut;
    return placement;
}

void check_size(Size size, const char* what) {
    if (!is_accepted(size, kMaxPixels)) {
        refuse(size, what, kMaxPixels, "");
    }
}

void check_source_size(Size size, const char* what, std::int64_t max_pixels) {
    if (!is_accepted(size, max_pixels)) {
        const bool sides = is_accepted(size, std::numeric_limits<std::int64_t>::max());
        refuse(size, what, max_pixels,
               sides ? "; decode_config(max_pixels=...) allows more, if it is to be trusted" : "");
    }
}

std::optional<Channels> parse_channels(std::string_view pixel_format) {
    for (const Channels channels : {Channels::kRgb, Channels::kBgr, Channels::kGray}) {
        if (pixel_format == pixel_format_name(channels)) {
            return channels;
        }
    }
    return std::nullopt;
}

const char* pixel_format_name(Channels channels) {
    switch (channels) {
        case Channels::kBgr:
            return "bgr24";
        case Channels::kGray:
            return "gray";
        case Channels::kRgb:
            break;
    }
    return "rgb24";
}

}  // namespace spdl
