#include "image/resizer.h"

namespace spdl {
namespace {

struct Range {
    int begin;
    int end;
};

// What a copy needs of the input.
Range copied(const Axis& axis) {
    const int begin = axis.mirrored ? axis.input - axis.first - axis.count : axis.first;
    return {begin, begin + axis.count};
}

template <typename Table>
Range needed(const Table& table) {
    return {table.source, table.source + table.source_count};
}

// Where both passes together are a level off at most: the vertical one takes a mean of what the horizontal one gives,
// which it does not with negative weights.
bool allows_near(const Resampling& resampling) {
    constexpr int kTapsOfStep = 2;  // As wide as these filters are, in input samples for an output sample.
    const Axis& axis = resampling.horizontal;
    return (resampling.interpolation == Interpolation::kBilinear || resampling.interpolation == Interpolation::kArea) &&
           axis.end - axis.begin < static_cast<double>(kMaxNearTaps / kTapsOfStep - 1) * axis.output;
}

}  // namespace

Box Resizer::prepare(const Resampling& resampling) {
    resampling_ = resampling;
    const auto& [horizontal, vertical, interpolation, exact, vertical_first] = resampling_;
    Range columns = copied(horizontal);
    Range rows = copied(vertical);
    const Kernels& variant = kernels();
    const bool near = !exact && variant.near != nullptr && allows_near(resampling_);
    plan_ = {&variant, near ? variant.near : &variant.horizontal, nullptr,       nullptr,
             {},       {horizontal.count, vertical.count},        vertical_first};
    if (!horizontal.copies() || !vertical.copies()) {
        if (interpolation == Interpolation::kNearest) {
            nearest_columns_.build(horizontal);
            nearest_rows_.build(vertical);
            columns = needed(nearest_columns_);
            rows = needed(nearest_rows_);
        } else {
            if (!horizontal.copies()) {
                plan_.horizontal = tables_.horizontal(horizontal, interpolation, *plan_.pass);
                columns = needed(*plan_.horizontal);
            }
            if (!vertical.copies()) {
                plan_.vertical = tables_.vertical(vertical, interpolation, *plan_.kernels);
                rows = needed(*plan_.vertical);
            }
        }
    }
    plan_.from = {columns.end - columns.begin, rows.end - rows.begin};
    return {columns.begin, rows.begin, columns.end, rows.end};
}

void Resizer::blacken(const Canvas& canvas) {
    writer_.begin(canvas, Target(), kernels().write_pixels);
}

RowSink& Resizer::begin(const SourceRows& source, const Canvas& canvas, const Target& target) {
    writer_.begin(canvas, target, plan_.kernels->write_pixels);
    if (resampling_.horizontal.copies() && resampling_.vertical.copies()) {
        copy_.begin(source, writer_);
        return copy_;
    }
    if (resampling_.interpolation == Interpolation::kNearest) {
        nearest_.begin(nearest_columns_, nearest_rows_, source, writer_);
        return nearest_;
    }
    if (plan_.vertical_first && plan_.horizontal != nullptr && plan_.vertical != nullptr) {
        vertical_first_.begin(plan_, source, writer_);
        return vertical_first_;
    }
    horizontal_first_.begin(plan_, source, writer_);
    return horizontal_first_;
}

}  // namespace spdl
