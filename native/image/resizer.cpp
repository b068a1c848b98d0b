#include "image/resizer.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace spdl {
namespace {

// libjpeg-turbo writes rows that are aligned to 32 bytes with non-temporal stores, which go to memory and have to be
// read back from there. Rows that start 16 bytes off stay in the cache.
constexpr std::size_t kRowOffset = 16;

std::size_t row_stride(int width, std::size_t slack) {
    const std::size_t needed = kRowOffset + 3 * static_cast<std::size_t>(width) + slack;
    return (needed + AlignedBuffer::kAlignment - 1) / AlignedBuffer::kAlignment * AlignedBuffer::kAlignment;
}

std::size_t slot(int y) {
    return static_cast<std::size_t>(y) % RowSink::kMaxRows;
}

}  // namespace

void CopySink::commit(int /*y*/, int /*count*/) noexcept {}

void NearestSink::begin(Size from, Size size, Pixels to) {
    // The positions are summed up, not multiplied out: that is what Pillow does, rounding errors included.
    const auto positions = [](int input, int output, auto& into, auto unit) {
        const double scale = static_cast<double>(input) / output;
        into.resize(static_cast<std::size_t>(output));
        double position = scale * 0.5;
        for (auto& entry : into) {
            entry = static_cast<decltype(unit)>(std::min(static_cast<int>(position), input - 1)) * unit;
            position += scale;
        }
    };
    positions(from.width, size.width, columns_, std::size_t{3});
    positions(from.height, size.height, rows_, 1);
    size_ = size;
    to_ = to;
    source_stride_ = row_stride(from.width, 0);
    source_.reserve(source_stride_ * kMaxRows);
    next_ = 0;
}

std::uint8_t* NearestSink::row(int y) noexcept {
    return source_.data() + slot(y) * source_stride_ + kRowOffset;
}

void NearestSink::commit(int y, int count) noexcept {
    for (int source = y; source < y + count; ++source) {
        for (; next_ < size_.height && rows_[static_cast<std::size_t>(next_)] == source; ++next_) {
            const std::uint8_t* const from = row(source);
            std::uint8_t* output = to_.row(next_);
            for (const std::size_t column : columns_) {
                std::memcpy(output, from + column, 3);
                output += 3;
            }
        }
    }
}

const ResampleTable& FilterSink::Tables::get(int from, int to, Interpolation interpolation,
                                             void (*pack)(ResampleTable&)) {
    for (const ResampleTable& table : tables) {
        if (table.serves(from, to, interpolation)) {
            return table;
        }
    }
    ResampleTable& table = tables[oldest];
    oldest = (oldest + 1) % tables.size();
    table.ready = false;
    table.build(from, to, interpolation);
    pack(table);
    table.ready = true;
    return table;
}

void FilterSink::begin(Size from, Size size, Interpolation interpolation, Pixels to) {
    if (const Kernels& current = kernels(); kernels_ != &current) {
        kernels_ = &current;
        horizontal_tables_ = Tables();
        vertical_tables_ = Tables();
    }
    horizontal_ = nullptr;
    vertical_ = nullptr;
    if (from.width != size.width) {
        horizontal_ = &horizontal_tables_.get(from.width, size.width, interpolation, kernels_->pack_horizontal);
        source_stride_ = row_stride(from.width, read_slack(*horizontal_));
        source_.reserve(source_stride_ * kMaxRows);
    }
    int ring_rows = kMaxRows;
    if (from.height != size.height) {
        vertical_ = &vertical_tables_.get(from.height, size.height, interpolation, kernels_->pack_vertical);
        ring_rows += vertical_->max_taps;
        window_.resize(static_cast<std::size_t>(vertical_->max_taps));
    }
    const std::size_t slots = std::bit_ceil(static_cast<unsigned>(ring_rows));
    ring_mask_ = slots - 1;
    ring_stride_ = row_stride(size.width, std::max(kReadSlack, kWriteSlack));
    ring_.reserve(slots * ring_stride_);
    size_ = size;
    to_ = to;
    next_ = 0;
}

std::uint8_t* FilterSink::row(int y) noexcept {
    return (horizontal_ != nullptr ? source_.data() + slot(y) * source_stride_ : ring_row(y)) + kRowOffset;
}

void FilterSink::commit(int y, int count) noexcept {
    if (horizontal_ != nullptr) {
        for (int done = 0; done < count; done += 2) {
            const int rows = std::min(count - done, 2);
            const std::uint8_t* sources[2];
            std::uint8_t* outputs[2];
            for (int i = 0; i < rows; ++i) {
                sources[i] = row(y + done + i);
                outputs[i] = ring_row(y + done + i) + kRowOffset;
            }
            kernels_->horizontal(*horizontal_, sources, outputs, rows);
        }
    }
    const std::size_t bytes = 3 * static_cast<std::size_t>(size_.width);
    if (vertical_ == nullptr) {
        for (int i = y; i < y + count; ++i) {
            std::memcpy(to_.row(i), ring_row(i) + kRowOffset, bytes);
        }
        return;
    }
    for (; next_ < size_.height; ++next_) {
        const auto index = static_cast<std::size_t>(next_);
        const int first = vertical_->first[index];
        const int taps = vertical_->taps[index];
        if (first + taps > y + count) {
            return;
        }
        for (int tap = 0; tap < taps; ++tap) {
            window_[static_cast<std::size_t>(tap)] = ring_row(first + tap) + kRowOffset;
        }
        kernels_->vertical(*vertical_, next_, window_.data(), to_.row(next_), bytes);
    }
}

RowSink& Resizer::begin(Size from, Size size, Interpolation interpolation, Pixels to) {
    if (from == size) {
        copy_.begin(to);
        return copy_;
    }
    if (interpolation == Interpolation::kNearest) {
        nearest_.begin(from, size, to);
        return nearest_;
    }
    filter_.begin(from, size, interpolation, to);
    return filter_;
}

}  // namespace spdl
