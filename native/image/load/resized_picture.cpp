#include "image/load/resized_picture.h"

#include "image/load/write_image.h"
#include "image/plan/image_plan.h"

namespace spdl {

std::unique_ptr<Frame> resized_picture(ImageReader& reader, const LoadOptions& options, FrameMaker make_frame,
                                       ThreadScratch& scratch) {
    const ImagePlan plan = plan_image(reader.shape(), options, {whole(reader.shape().upright()), false});
    std::unique_ptr<Frame> frame = make_frame(plan.canvas, options.format.channels());
    write_image(reader, plan, options.format, frame->pixels(), scratch);
    return frame;
}

}  // namespace spdl
