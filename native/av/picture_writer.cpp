#include "av/picture_writer.h"

#include <utility>

#include "av/yuv_planes.h"
#include "image/load/write_image.h"

namespace spdl {
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

bool PictureWriter::open_planes(const AVFrame& frame, const Orientation& orientation) {
    planes_ = options_.exact ? std::nullopt : yuv_planes(frame);
    if (!planes_) {
        return false;
    }
    const ImageShape shape{{frame.width, frame.height}, orientation};
    plan_ = plan_image(shape, options_, {whole(shape.upright()), false});
    if (plan_.black || !YuvResizer::takes(plan_.resampling)) {
        planes_.reset();
    }
    return planes_.has_value();
}

Size PictureWriter::open(const AVFrame& frame) {
    const Orientation orientation = turned_by(rotation_);
    if (open_planes(frame, orientation)) {
        return plan_.canvas;
    }
    FramePtr picture = options_.exact ? nullptr : scaled(frame, orientation);
    ImageShape shape = decoder_.open(picture ? std::move(picture) : reference(frame));
    shape.orientation = orientation;
    plan_ = plan_image(shape, options_, {whole(shape.upright()), false});
    return plan_.canvas;
}

void PictureWriter::write(std::uint8_t* to) {
    if (planes_) {
        scratch_.yuv_resizer.write(*planes_, plan_.resampling, {to, plan_.canvas, &options_.format}, plan_.target);
        planes_.reset();
        return;
    }
    write_image(decoder_, plan_, options_.format, to, scratch_);
    decoder_.close();
}

}  // namespace spdl
