#include "image/plan/image_plan.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "core/errors.h"

namespace spdl {
namespace {

// A resize of the pixels decodes only the columns that it needs. If these are less than this share of the image, it is
// faster than one of the planes.
constexpr double kLeastColumns = 0.7;

void check_crop(const Box& box, Size upright) {
    if (box.left < 0 || box.top < 0 || box.left >= box.right || box.top >= box.bottom || box.right > upright.width ||
        box.bottom > upright.height) {
        throw MediaError("the crop (" + std::to_string(box.left) + ", " + std::to_string(box.top) + ", " +
                         std::to_string(box.right) + ", " + std::to_string(box.bottom) +
                         ") does not lie within the image of " + dimensions(upright) +
                         " pixels: give left, top, right and bottom, the latter two just outside");
    }
}

// Only what lies on the canvas is made of a resized image, so it may be larger than an image in memory.
void check_resized(Size size) {
    constexpr int kMost = 1 << 29;
    if (size.width > kMost || size.height > kMost) {
        throw MediaError("the image would be resized to " + dimensions(size) +
                         " pixels, before it is cropped; sides up to " + std::to_string(kMost) + " are accepted");
    }
}

// Decoding at a fraction loses what its samples do not tell from each other. Filters weigh that the less, the more of
// these samples they take in: with that many for each output, photos stay within 38 dB of the exact picture.
double least_scale(Interpolation interpolation) {
    switch (interpolation) {
        case Interpolation::kBilinear:
            return 1.5;
        case Interpolation::kBicubic:
            return 1.6;
        case Interpolation::kLanczos:
            return 1.75;
        case Interpolation::kArea:
        case Interpolation::kNearest:
            break;
    }
    return 3.0;
}

// libjpeg has fractions in between, but they cost more than a whole decode.
int fraction(Size from, Size to, Interpolation interpolation) {
    const double scale = 8 * least_scale(interpolation);
    for (const int eighths : {1, 2, 4}) {
        if (from.width * eighths >= to.width * scale && from.height * eighths >= to.height * scale) {
            return eighths;
        }
    }
    return 8;
}

// Returns the side from `low` to `high` of a stored image of that length.
Axis stored_axis(int low, int high, int length, bool mirrored, bool wavelets) {
    Axis axis;
    axis.input = high - low;
    axis.end = axis.input;
    axis.mirrored = mirrored;
    axis.fewer.length = length;
    axis.fewer.place = low;
    axis.fewer.first = wavelets;
    return axis;
}

// Returns the origin of the axis's table, which counts all samples if some are missing, after saying how many are.
int take_fewer(Axis& axis, bool upsampled, int eighths) {
    axis.fewer.upsampled = upsampled;
    axis.fewer.halvings = std::countr_zero(8U) - std::countr_zero(static_cast<unsigned>(eighths));
    if (upsampled || axis.fewer.halvings != 0) {
        return 0;
    }
    const int place = axis.fewer.place;
    axis.fewer = {};
    return place;
}

Origin take_fewer(Resampling& resampling, bool upsampled_x, bool upsampled_y, int eighths) {
    return {take_fewer(resampling.horizontal, upsampled_x, eighths),
            take_fewer(resampling.vertical, upsampled_y, eighths)};
}

// The part of a resized side that lies on the canvas.
struct Visible {
    int at;  // On the canvas.
    int first;
    int count;
};

Visible visible(int offset, int resized, int canvas) {
    const int at = std::max(offset, 0);
    return {at, at - offset, std::min(canvas, offset + resized) - at};
}

void resize(Axis& axis, int output, const Visible& wanted) {
    axis.output = output;
    axis.first = wanted.first;
    axis.count = wanted.count;
}

// The two orders round differently. Pillow 13 chooses between them in this way, as probing it has shown.
bool vertical_first(const Axis& x, const Axis& y) {
    return x.input != x.output && y.output < y.input &&
           2 * (static_cast<std::int64_t>(x.input) - x.output) < y.input - y.output;
}

// Returns whether a resize of the planes is possible, and less work than one of the pixels.
bool pays_in_planes(const ImageShape& shape, const LoadOptions& options, const ImagePlan& plan) {
    const Axis& x = plan.resampling.horizontal;
    const Axis& y = plan.resampling.vertical;
    if (!shape.planes || options.interpolation == Interpolation::kNearest ||
        options.format.channels() == Channels::kGray || (x.copies() && y.copies())) {
        return false;
    }
    // All columns are then decoded.
    const double columns = static_cast<double>(x.input) * x.count / x.output;
    return static_cast<std::int64_t>(x.output) * y.output <= static_cast<std::int64_t>(x.input) * y.input &&
           columns >= kLeastColumns * shape.stored.width;
}

// Returns the plan of chroma out of the resampling of the pixels.
ChromaPlan plan_chroma(const ImageShape& shape, const Resampling& resampling, int eighths) {
    ChromaPlan chroma;
    chroma.resampling = resampling;
    chroma.origin = take_fewer(chroma.resampling, shape.chroma_grid.width == 2, shape.chroma_grid.height == 2,
                               shape.chroma_eighths(eighths));
    return chroma;
}

}  // namespace

ImagePlan plan_image(const ImageShape& shape, const LoadOptions& options, const CropAndFlip& crop, int least_eighths) {
    check_crop(crop.box, shape.upright());
    Placement placement = crop.placement.value_or(place(crop.box.size(), options.target, options.fit));
    if (!crop.placement && options.center != Size{}) {
        const bool scaled = options.target != Size{};
        placement = cut_center(placement, options.center, scaled ? Size{1, 1} : shape.chroma_grid);
    }
    check_resized(placement.image);
    check_size(placement.canvas, "an output size");

    ImagePlan plan;
    plan.canvas = placement.canvas;
    if (!options.exact && shape.scalable && options.interpolation != Interpolation::kNearest) {
        plan.eighths = std::max(fraction(crop.box.size(), placement.image, options.interpolation), least_eighths);
    }
    const Orientation& orientation = shape.orientation;
    const Box box = orientation.stored_box(crop.box, shape.stored);
    Resampling& resampling = plan.resampling;
    resampling.horizontal =
        stored_axis(box.left, box.right, shape.stored.width, orientation.mirrored_x, shape.wavelets);
    resampling.vertical = stored_axis(box.top, box.bottom, shape.stored.height, orientation.mirrored_y, shape.wavelets);
    // The axes of the upright image.
    const bool transposed = orientation.transposed;
    Axis& x = transposed ? resampling.vertical : resampling.horizontal;
    Axis& y = transposed ? resampling.horizontal : resampling.vertical;
    const Visible columns = visible(placement.left, placement.image.width, placement.canvas.width);
    const Visible rows = visible(placement.top, placement.image.height, placement.canvas.height);
    if (columns.count <= 0 || rows.count <= 0) {
        plan.black = true;
        return plan;
    }
    resize(x, placement.image.width, columns);
    resize(y, placement.image.height, rows);

    const bool flip = options.flip != crop.flip;
    // Rows come in their stored order, but the resize can reverse columns.
    resampling.vertical.reversed = resampling.vertical.mirrored;
    resampling.horizontal.reversed = flip && !transposed;
    resampling.interpolation = options.interpolation;
    resampling.exact = options.exact;
    resampling.vertical_first = vertical_first(x, y) != transposed;

    if (!options.exact && pays_in_planes(shape, options, plan)) {
        plan.chroma = plan_chroma(shape, resampling, plan.eighths);
    }
    plan.origin = take_fewer(resampling, false, false, plan.eighths);

    const int left = flip ? placement.canvas.width - columns.at - columns.count : columns.at;
    plan.target = {{left, rows.at, left + columns.count, rows.at + rows.count},
                   transposed,
                   orientation.mirrored_y != (flip && transposed)};
    return plan;
}

}  // namespace spdl
