#include "image/simple_sinks.h"

#include <algorithm>
#include <cstring>

namespace spdl {

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
    source_.begin(kMaxRows, from.width, 0);
    next_ = 0;
}

void NearestSink::commit(int y, int count) noexcept {
    for (int source = y; source < y + count; ++source) {
        for (; next_ < size_.height && rows_[static_cast<std::size_t>(next_)] == source; ++next_) {
            const std::uint8_t* const from = source_.row(source);
            std::uint8_t* output = to_.row(next_);
            for (const std::size_t column : columns_) {
                std::memcpy(output, from + column, 3);
                output += 3;
            }
        }
    }
}

}  // namespace spdl
