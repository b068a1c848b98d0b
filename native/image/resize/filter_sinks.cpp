#include "image/resize/filter_sinks.h"

#include <algorithm>

namespace spdl {
namespace {

// Rows that the horizontal pass takes at a time.
constexpr int kPair = 2;

}  // namespace

void HorizontalFirstSink::begin(const FilterPlan& plan, const DecodedRows& source, RowWriter& writer) {
    plan_ = plan;
    writer_ = &writer;
    waiting_ = 0;
    int rows = kCollected + kMaxRows;
    if (plan.vertical != nullptr) {
        vertical_.begin(*plan.kernels, *plan.vertical);
        rows += plan.vertical->max_taps;
    }
    const std::size_t slack = std::max({kReadSlack, kWriteSlack, kPixelSlack});
    if (plan.horizontal == nullptr) {
        narrowed_.begin(rows, rgb_bytes(source.pixels), slack, rgb_bytes(source.skipped));
    } else {
        narrowed_.begin(rows, rgb_bytes(plan.size.width), slack);
        source_.begin(kCollected + kMaxRows, rgb_bytes(source.pixels), read_slack(*plan.horizontal),
                      rgb_bytes(source.skipped));
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
        vertical_.write_next(narrowed_, rgb_bytes(plan_.size.width), writer_->row(next));
        writer_->commit(next);
    }
}

void VerticalFirstSink::begin(const FilterPlan& plan, const DecodedRows& source, RowWriter& writer) {
    plan_ = plan;
    writer_ = &writer;
    vertical_.begin(*plan.kernels, *plan.vertical);
    source_.begin(plan.vertical->max_taps + kMaxRows, rgb_bytes(source.pixels), kReadSlack, rgb_bytes(source.skipped));
    shortened_.begin(1, rgb_bytes(plan.from.width), read_slack(*plan.horizontal));
    output_.begin(1, rgb_bytes(plan.size.width), std::max(kWriteSlack, kPixelSlack));
}

void VerticalFirstSink::commit(int y, int count) noexcept {
    while (vertical_.ready(y + count)) {
        const std::uint8_t* const source = shortened_.row(0);
        std::uint8_t* const output = output_.row(0);
        const int next = vertical_.next();
        vertical_.write_next(source_, rgb_bytes(plan_.from.width), shortened_.row(0));
        plan_.pass->resample(*plan_.horizontal, &source, &output, 1);
        writer_->put(next, output);
    }
}

}  // namespace spdl
