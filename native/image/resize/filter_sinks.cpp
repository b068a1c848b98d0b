#include "image/resize/filter_sinks.h"

#include <algorithm>

namespace spdl {
namespace {

// Rows that the horizontal pass takes at a time.
constexpr int kPair = 2;

std::size_t row_bytes(int width) {
    return 3 * static_cast<std::size_t>(width);
}

}  // namespace

const ResampleTable* TableCache::Tables::get(const Axis& axis, Interpolation interpolation,
                                             void (*pack)(ResampleTable&)) {
    for (const ResampleTable& table : tables) {
        if (table.serves(axis, interpolation)) {
            return &table;
        }
    }
    ResampleTable& table = tables[oldest];
    oldest = (oldest + 1) % tables.size();
    table.ready = false;
    table.build(axis, interpolation);
    pack(table);
    table.ready = true;
    return &table;
}

const ResampleTable* TableCache::horizontal(const Axis& axis, Interpolation interpolation,
                                            void (*pack)(ResampleTable&)) {
    if (pack_horizontal_ != pack) {
        pack_horizontal_ = pack;
        horizontal_ = Tables();
    }
    return horizontal_.get(axis, interpolation, pack);
}

const ResampleTable* TableCache::vertical(const Axis& axis, Interpolation interpolation, void (*pack)(ResampleTable&)) {
    if (pack_vertical_ != pack) {
        pack_vertical_ = pack;
        vertical_ = Tables();
    }
    return vertical_.get(axis, interpolation, pack);
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

void VerticalPass::write_next(const RowRing& rows, int width, std::uint8_t* to) {
    const auto index = static_cast<std::size_t>(next_);
    const int first = plan_.vertical->first[index];
    for (int tap = 0; tap < plan_.vertical->taps[index]; ++tap) {
        window_[static_cast<std::size_t>(tap)] = rows.pixels(first + tap);
    }
    plan_.kernels->vertical(*plan_.vertical, next_, window_.data(), to, row_bytes(width));
    ++next_;
}

void HorizontalFirstSink::begin(const FilterPlan& plan, const DecodedRows& source, RowWriter& writer) {
    plan_ = plan;
    writer_ = &writer;
    waiting_ = 0;
    int rows = kCollected + kMaxRows;
    if (plan.vertical != nullptr) {
        vertical_.begin(plan);
        rows += plan.vertical->max_taps;
    }
    const std::size_t slack = std::max({kReadSlack, kWriteSlack, kPixelSlack});
    if (plan.horizontal == nullptr) {
        narrowed_.begin(rows, source.pixels, slack, source.skipped);
    } else {
        narrowed_.begin(rows, plan.size.width, slack);
        source_.begin(kCollected + kMaxRows, source.pixels, read_slack(*plan.horizontal), source.skipped);
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
            const std::uint8_t* const sources[kPair] = {source_.pixels(first), source_.pixels(first + 1)};
            std::uint8_t* const outputs[kPair] = {narrowed_.row(first), narrowed_.row(first + 1)};
            plan_.pass->resample(*plan_.horizontal, sources, outputs, std::min(end - first, kPair));
        }
    }
    if (plan_.vertical == nullptr) {
        for (int i = begin; i < end; ++i) {
            writer_->put(i, narrowed_.pixels(i));
        }
        return;
    }
    while (vertical_.ready(end)) {
        const int next = vertical_.next();
        vertical_.write_next(narrowed_, plan_.size.width, writer_->row(next));
        writer_->commit(next);
    }
}

void VerticalFirstSink::begin(const FilterPlan& plan, const DecodedRows& source, RowWriter& writer) {
    plan_ = plan;
    writer_ = &writer;
    vertical_.begin(plan);
    source_.begin(plan.vertical->max_taps + kMaxRows, source.pixels, kReadSlack, source.skipped);
    shortened_.begin(1, plan.from.width, read_slack(*plan.horizontal));
    output_.begin(1, plan.size.width, std::max(kWriteSlack, kPixelSlack));
}

void VerticalFirstSink::commit(int y, int count) noexcept {
    while (vertical_.ready(y + count)) {
        const std::uint8_t* const source = shortened_.row(0);
        std::uint8_t* const output = output_.row(0);
        const int next = vertical_.next();
        vertical_.write_next(source_, plan_.from.width, shortened_.row(0));
        plan_.pass->resample(*plan_.horizontal, &source, &output, 1);
        writer_->put(next, output);
    }
}

}  // namespace spdl
