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

}  // namespace

void write_image(Decoder& decoder, const ImagePlan& plan, const ArrayFormat& format, std::uint8_t* to,
                 ThreadScratch& scratch) {
    const Canvas canvas{to, plan.canvas, &format};
    if (plan.black) {
        scratch.resizer.blacken(canvas);
        return;
    }
    const Box needed = scratch.resizer.prepare(plan.resampling);
    const Box wanted{plan.left + needed.left, plan.top + needed.top, plan.left + needed.right,
                     plan.top + needed.bottom};
    CanvasPlace place(scratch.resizer, canvas, plan.target);
    decoder.decode({plan.eighths, wanted, format.channels()}, place);
}

}  // namespace spdl
