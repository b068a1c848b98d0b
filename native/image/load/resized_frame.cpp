#include "image/load/resized_frame.h"

#include "image/load/write_image.h"
#include "image/plan/image_plan.h"

namespace spdl {

std::unique_ptr<Frame> resized_frame(Decoder& decoder, const ImageShape& shape, const LoadOptions& options,
                                     FrameMaker make_frame, ThreadScratch& scratch) {
    const ImagePlan plan = plan_image(shape, options, {whole(shape.upright()), false});
    std::unique_ptr<Frame> frame = make_frame(plan.canvas, options.format);
    write_image(decoder, plan, options.format, frame->pixels(), scratch);
    frame->set_properties(decoder.properties());
    return frame;
}

}  // namespace spdl
