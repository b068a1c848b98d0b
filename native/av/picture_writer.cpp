#include "av/picture_writer.h"

#include <utility>

#include "image/load/write_image.h"

namespace spdl {
namespace {

// Returns how a picture is stored that a viewer turns clockwise by these degrees.
Orientation orientation_of(int rotation) {
    switch (rotation) {
        case 90:
            return {true, false, true};
        case 180:
            return {false, true, true};
        case 270:
            return {true, true, false};
        default:
            return {};
    }
}

}  // namespace

PictureWriter::PictureWriter(const LoadOptions& options, int rotation)
    : options_(options), rotation_(options.upright ? rotation : 0), scratch_(thread_scratch()) {}

// Returns the picture as it lies on the canvas, but not turned yet; null if most of it would be cut off.
FramePtr PictureWriter::scaled(const AVFrame& frame, const Orientation& orientation) {
    const Size stored{frame.width, frame.height};
    const Placement placement = place(orientation.upright_size(stored), options_.target, options_.fit);
    const auto pixels = [](Size size) { return static_cast<std::int64_t>(size.width) * size.height; };
    constexpr std::int64_t kMost = 4;
    if (pixels(placement.image) > kMost * pixels(placement.canvas)) {
        return nullptr;
    }
    const Size size = orientation.upright_size(placement.image);
    return reference(scaler_.scale(frame, size, options_.format.channels(), options_.interpolation));
}

Size PictureWriter::open(const AVFrame& frame) {
    const Orientation orientation = orientation_of(rotation_);
    FramePtr picture = options_.exact ? nullptr : scaled(frame, orientation);
    ImageShape shape = decoder_.open(picture ? std::move(picture) : reference(frame));
    shape.orientation = orientation;
    plan_ = plan_image(shape, options_, {whole(shape.upright()), false});
    return plan_.canvas;
}

void PictureWriter::write(std::uint8_t* to) {
    write_image(decoder_, plan_, options_.format, to, scratch_);
    decoder_.close();
}

}  // namespace spdl
