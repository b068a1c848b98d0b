#include "image/load/write_image.h"

namespace spdl {
namespace {

// A canvas that is written to through the resize.
class CanvasPlace final : public Place {
  public:
    CanvasPlace(Resizer& resizer, const Canvas& canvas, const Target& target)
        : resizer_(resizer), canvas_(canvas), target_(target) {}

    RowSink& begin(const DecodedRows& rows) override { return resizer_.begin(rows, canvas_, target_); }

  private:
    Resizer& resizer_;
    const Canvas& canvas_;
    const Target& target_;
};

// A canvas that is written to out of planes.
class PlanarCanvasPlace final : public PlanePlace {
  public:
    PlanarCanvasPlace(PlaneResizer& resizer, const Canvas& canvas, const Target& target)
        : resizer_(resizer), canvas_(canvas), target_(target) {}

    PlaneSink& begin(const DecodedPlanes& planes) override { return resizer_.begin(planes, canvas_, target_); }

  private:
    PlaneResizer& resizer_;
    const Canvas& canvas_;
    const Target& target_;
};

Box moved(const Box& box, const Origin& by) {
    return {box.left + by.left, box.top + by.top, box.right + by.left, box.bottom + by.top};
}

}  // namespace

void write_image(Decoder& decoder, const ImagePlan& plan, const ArrayFormat& format, std::uint8_t* to,
                 ThreadScratch& scratch) {
    const Canvas canvas{to, plan.canvas, &format};
    if (plan.black) {
        scratch.resizer.blacken(canvas);
        return;
    }
    if (plan.chroma) {
        const PlaneBoxes needed = scratch.plane_resizer.prepare(plan.resampling, plan.chroma->resampling);
        PlanarCanvasPlace place(scratch.plane_resizer, canvas, plan.target);
        decoder.decode_planes(
            {plan.eighths, moved(needed.luma, plan.origin), moved(needed.chroma, plan.chroma->origin)}, place);
        return;
    }
    const Box needed = scratch.resizer.prepare(plan.resampling);
    CanvasPlace place(scratch.resizer, canvas, plan.target);
    decoder.decode({plan.eighths, moved(needed, plan.origin), format.channels()}, place);
}

}  // namespace spdl
