#include "image/load/resize_pixels.h"

#include <algorithm>
#include <cstring>

#include "image/load/thread_scratch.h"
#include "image/plan/image_plan.h"

namespace spdl {

void resize_pixels(Bytes pixels, Size size, const LoadOptions& options, std::uint8_t* to) {
    const ImagePlan plan = plan_image({size, {}, {1, 1}, false}, options, {whole(size), false});
    Resizer& resizer = thread_scratch().resizer;
    const Box needed = resizer.prepare(plan.resampling);
    const auto width = static_cast<std::size_t>(needed.size().width);
    RowSink& sink = resizer.begin({needed.size().width, 0}, {to, plan.canvas, &options.format}, plan.target);
    for (int y = 0; y < needed.size().height; y += RowSink::kMaxRows) {
        const int count = std::min(RowSink::kMaxRows, needed.size().height - y);
        for (int row = y; row < y + count; ++row) {
            const std::size_t at = static_cast<std::size_t>(needed.top + row) * static_cast<std::size_t>(size.width) +
                                   static_cast<std::size_t>(needed.left);
            std::memcpy(sink.row(row), pixels.data() + 3 * at, 3 * width);
        }
        sink.commit(y, count);
    }
}

}  // namespace spdl
