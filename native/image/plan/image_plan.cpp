#include "image/plan/image_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "core/media_error.h"

namespace spdl {
namespace {

std::string describe(Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

void check_crop(const Box& box, Size upright) {
    if (box.left < 0 || box.top < 0 || box.left >= box.right || box.top >= box.bottom || box.right > upright.width ||
        box.bottom > upright.height) {
        throw MediaError("the crop (" + std::to_string(box.left) + ", " + std::to_string(box.top) + ", " +
                         std::to_string(box.right) + ", " + std::to_string(box.bottom) +
                         ") does not lie within the image of " + describe(upright) +
                         " pixels: give left, top, right and bottom, the latter two just outside");
    }
}

// Only what lies on the canvas is made of a resized image, so it may be larger than an image in memory.
void check_resized(Size size) {
    constexpr int kMost = 1 << 29;
    if (size.width > kMost || size.height > kMost) {
        throw MediaError("the image would be resized to " + describe(size) +
                         " pixels, before it is cropped; sides up to " + std::to_string(kMost) + " are accepted");
    }
}

// libjpeg has fractions in between, but they cost more than a whole decode.
int fraction(Size from, Size to) {
    for (const int eighths : {1, 2, 4}) {
        if (from.width * eighths / 8 >= to.width && from.height * eighths / 8 >= to.height) {
            return eighths;
        }
    }
    return 8;
}

// Returns the side from `low` to `high` of a stored image of that length, decoded at a fraction of its size: the
// samples that it touches, and where among them it begins and ends.
Axis scaled_axis(int low, int high, int length, int eighths, bool mirrored, int& origin) {
    const double begin = low * (eighths / 8.0);
    const double end = high * (eighths / 8.0);
    const int decoded = static_cast<int>((static_cast<std::int64_t>(length) * eighths + 7) / 8);
    origin = static_cast<int>(std::floor(begin));
    Axis axis;
    axis.input = std::min(static_cast<int>(std::ceil(end)), decoded) - origin;
    axis.begin = mirrored ? axis.input - (end - origin) : begin - origin;
    axis.end = mirrored ? axis.input - (begin - origin) : end - origin;
    axis.mirrored = mirrored;
    return axis;
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

}  // namespace

ImagePlan plan_image(const ImageShape& shape, const LoadOptions& options, const CropAndFlip& crop) {
    check_crop(crop.box, shape.upright());
    Placement placement = place(crop.box.size(), options.target, options.fit);
    if (options.center != Size{}) {
        const bool scaled = options.target != Size{};
        placement = cut_center(placement, options.center, scaled ? Size{1, 1} : shape.chroma_grid);
    }
    check_resized(placement.image);
    check_size(placement.canvas, "an output size");

    ImagePlan plan;
    plan.canvas = placement.canvas;
    if (!options.exact && shape.scalable && options.interpolation != Interpolation::kNearest) {
        plan.eighths = fraction(crop.box.size(), placement.image);
    }
    const Orientation& orientation = shape.orientation;
    const Box box = orientation.stored_box(crop.box, shape.stored);
    Resampling& resampling = plan.resampling;
    resampling.horizontal =
        scaled_axis(box.left, box.right, shape.stored.width, plan.eighths, orientation.mirrored_x, plan.left);
    resampling.vertical =
        scaled_axis(box.top, box.bottom, shape.stored.height, plan.eighths, orientation.mirrored_y, plan.top);
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

    const int left = flip ? placement.canvas.width - columns.at - columns.count : columns.at;
    plan.target = {{left, rows.at, left + columns.count, rows.at + rows.count},
                   transposed,
                   orientation.mirrored_y != (flip && transposed)};
    return plan;
}

}  // namespace spdl
