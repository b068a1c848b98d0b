#include "image/filter_sinks.h"

#include <algorithm>
#include <cstring>

namespace spdl {
namespace {

// Rows that the horizontal pass takes at a time.
constexpr int kPair = 2;

std::size_t row_bytes(int width) {
    return 3 * static_cast<std::size_t>(width);
}

}  // namespace

const ResampleTable* FilterPlanner::Tables::get(int from, int to, Interpolation interpolation,
                                                void (*pack)(ResampleTable&)) {
    for (const ResampleTable& table : tables) {
        if (table.serves(from, to, interpolation)) {
            return &table;
        }
    }
    ResampleTable& table = tables[oldest];
    oldest = (oldest + 1) % tables.size();
    table.ready = false;
    table.build(from, to, interpolation);
    pack(table);
    table.ready = true;
    return &table;
}

FilterPlan FilterPlanner::plan(Size from, Size size, Interpolation interpolation) {
    if (const Kernels& current = kernels(); kernels_ != &current) {
        kernels_ = &current;
        horizontal_ = Tables();
        vertical_ = Tables();
    }
    FilterPlan plan{kernels_, nullptr, nullptr, from, size};
    if (from.width != size.width) {
        plan.horizontal = horizontal_.get(from.width, size.width, interpolation, kernels_->pack_horizontal);
    }
    if (from.height != size.height) {
        plan.vertical = vertical_.get(from.height, size.height, interpolation, kernels_->pack_vertical);
    }
    return plan;
}

void VerticalPass::begin(const FilterPlan& plan) {
    plan_ = plan;
    window_.resize(static_cast<std::size_t>(plan.vertical->max_taps));
    next_ = 0;
}

bool VerticalPass::ready(int available) const {
    if (next_ == plan_.size.height) {
        return false;
    }
    const auto index = static_cast<std::size_t>(next_);
    return plan_.vertical->first[index] + plan_.vertical->taps[index] <= available;
}

int VerticalPass::write_next(const RowRing& rows, int width, std::uint8_t* to) {
    const auto index = static_cast<std::size_t>(next_);
    const int first = plan_.vertical->first[index];
    for (int tap = 0; tap < plan_.vertical->taps[index]; ++tap) {
        window_[static_cast<std::size_t>(tap)] = rows.row(first + tap);
    }
    plan_.kernels->vertical(*plan_.vertical, next_, window_.data(), to, row_bytes(width));
    return next_++;
}

void HorizontalFirstSink::begin(const FilterPlan& plan, Pixels to) {
    plan_ = plan;
    to_ = to;
    waiting_ = 0;
    int rows = kCollected + kMaxRows;
    if (plan.vertical != nullptr) {
        vertical_.begin(plan);
        rows += plan.vertical->max_taps;
    }
    narrowed_.begin(rows, plan.size.width, std::max(kReadSlack, kWriteSlack));
    if (plan.horizontal != nullptr) {
        source_.begin(kCollected + kMaxRows, plan.from.width, read_slack(*plan.horizontal));
    }
}

std::uint8_t* HorizontalFirstSink::row(int y) noexcept {
    return plan_.horizontal != nullptr ? source_.row(y) : narrowed_.row(y);
}

void HorizontalFirstSink::commit(int y, int count) noexcept {
    const int end = y + count;
    if (end - waiting_ < kCollected && end < plan_.from.height) {
        return;
    }
    const int begin = waiting_;
    waiting_ = end;
    if (plan_.horizontal != nullptr) {
        for (int first = begin; first < end; first += kPair) {
            const std::uint8_t* const sources[kPair] = {source_.row(first), source_.row(first + 1)};
            std::uint8_t* const outputs[kPair] = {narrowed_.row(first), narrowed_.row(first + 1)};
            plan_.kernels->horizontal(*plan_.horizontal, sources, outputs, std::min(end - first, kPair));
        }
    }
    if (plan_.vertical == nullptr) {
        for (int i = begin; i < end; ++i) {
            std::memcpy(to_.row(i), narrowed_.row(i), row_bytes(plan_.size.width));
        }
        return;
    }
    while (vertical_.ready(end)) {
        vertical_.write_next(narrowed_, plan_.size.width, to_.row(vertical_.next()));
    }
}

void VerticalFirstSink::begin(const FilterPlan& plan, Pixels to) {
    plan_ = plan;
    to_ = to;
    vertical_.begin(plan);
    source_.begin(plan.vertical->max_taps + kMaxRows, plan.from.width, kReadSlack);
    shortened_.begin(1, plan.from.width, read_slack(*plan.horizontal));
    output_.begin(1, plan.size.width, kWriteSlack);
}

void VerticalFirstSink::commit(int y, int count) noexcept {
    while (vertical_.ready(y + count)) {
        const std::uint8_t* const source = shortened_.row(0);
        std::uint8_t* const output = output_.row(0);
        const int next = vertical_.write_next(source_, plan_.from.width, shortened_.row(0));
        plan_.kernels->horizontal(*plan_.horizontal, &source, &output, 1);
        std::memcpy(to_.row(next), output, row_bytes(plan_.size.width));
    }
}

}  // namespace spdl
