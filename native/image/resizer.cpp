#include "image/resizer.h"

namespace spdl {

RowSink& Resizer::begin(Size from, Size size, Interpolation interpolation, Pixels to) {
    if (from == size) {
        copy_.begin(to);
        return copy_;
    }
    if (interpolation == Interpolation::kNearest) {
        nearest_.begin(from, size, to);
        return nearest_;
    }
    const FilterPlan plan = planner_.plan(from, size, interpolation);
    if (plan.vertical_first()) {
        vertical_first_.begin(plan, to);
        return vertical_first_;
    }
    horizontal_first_.begin(plan, to);
    return horizontal_first_;
}

}  // namespace spdl
