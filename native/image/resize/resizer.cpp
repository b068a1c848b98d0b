#include "image/resize/resizer.h"

namespace spdl {
namespace {

struct Range {
    int begin;
    int end;
};

// The part of the input that a copy needs.
Range copied(const Axis& axis) {
    const int begin = axis.mirrored ? axis.input - axis.first - axis.count : axis.first;
    return {begin, begin + axis.count};
}

template <typename Table>
Range needed(const Table& table) {
    return {table.source, table.source + table.source_count};
}

bool allows_near(const Resampling& resampling) {
    // If neighbouring output samples are `scale` input samples apart, these filters are 2 * scale + 1 input samples
    // wide.
    constexpr double kMaxScale = (kMaxNearTaps - 1) / 2;
    const Axis& axis = resampling.horizontal;
    // Weights of samples that stand for several may be below zero.
    return !resampling.exact && axis.fewer.length == 0 &&
           (resampling.interpolation == Interpolation::kBilinear || resampling.interpolation == Interpolation::kArea) &&
           axis.end - axis.begin <= kMaxScale * axis.output;
}

}  // namespace

Box Resizer::prepare(const Resampling& resampling) {
    resampling_ = resampling;
    const Axis& horizontal = resampling_.horizontal;
    const Axis& vertical = resampling_.vertical;
    const Interpolation interpolation = resampling_.interpolation;
    Range columns = copied(horizontal);
    Range rows = copied(vertical);
    const Kernels& variant = kernels();
    const NearPasses* const near = allows_near(resampling_) ? variant.near : nullptr;
    const HorizontalPass& pass = near != nullptr ? near->horizontal : variant.horizontal;
    plan_ = {&variant, &pass, nullptr, nullptr, {}, {horizontal.count, vertical.count}, resampling_.vertical_first};
    if (!horizontal.copies() || !vertical.copies()) {
        if (interpolation == Interpolation::kNearest) {
            nearest_columns_.build(horizontal);
            nearest_rows_.build(vertical);
            columns = needed(nearest_columns_);
            rows = needed(nearest_rows_);
        } else {
            if (!horizontal.copies()) {
                plan_.horizontal = tables_.horizontal(horizontal, interpolation, pass.pack);
                columns = needed(*plan_.horizontal);
            }
            if (!vertical.copies()) {
                plan_.vertical = tables_.vertical(vertical, interpolation,
                                                  near != nullptr ? near->pack_vertical : variant.pack_vertical);
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

RowSink& Resizer::begin(const DecodedRows& source, const Canvas& canvas, const Target& target) {
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
