#include "image/load/write_image.h"

namespace spdl {

void write_image(ImageReader& reader, const ImagePlan& plan, const ArrayFormat& format, std::uint8_t* to,
                 ThreadScratch& scratch) {
    const Canvas canvas{to, plan.canvas, &format};
    if (plan.black) {
        scratch.resizer.blacken(canvas);
        return;
    }
    const Box needed = scratch.resizer.prepare(plan.resampling);
    const Box wanted{plan.left + needed.left, plan.top + needed.top, plan.left + needed.right,
                     plan.top + needed.bottom};
    const DecodedRows source = reader.begin(plan.eighths, wanted, format.channels());
    reader.read(scratch.resizer.begin(source, canvas, plan.target));
}

}  // namespace spdl
