#include "image/resize/simple_sinks.h"

#include <algorithm>
#include <cstring>

#include "core/geometry.h"

namespace spdl {

void CopySink::begin(const DecodedRows& source, RowWriter& writer) {
    writer_ = &writer;
    in_place_ = writer.direct() && source.pixels == writer.target().row_pixels();
    if (!in_place_) {
        source_.begin(kMaxRows, rgb_bytes(source.pixels), kPixelSlack, rgb_bytes(source.skipped));
    }
}

void CopySink::commit(int y, int count) noexcept {
    for (int row = y; !in_place_ && row < y + count; ++row) {
        writer_->put(row, source_.pixels(row));
    }
}

void NearestTable::build(const Axis& axis) {
    samples.resize(static_cast<std::size_t>(axis.count));
    const double scale = (axis.end - axis.begin) / axis.output;
    // The positions are summed up, not multiplied: Pillow does so, rounding errors included.
    double position = axis.begin + scale * 0.5;
    for (int i = 0; i < axis.first + axis.count; ++i, position += scale) {
        if (i >= axis.first) {
            const int sample = std::min(static_cast<int>(position), axis.input - 1);
            const int at = axis.reversed ? axis.first + axis.count - 1 - i : i - axis.first;
            samples[static_cast<std::size_t>(at)] = axis.mirrored ? axis.input - 1 - sample : sample;
        }
    }
    const auto [least, most] = std::minmax(samples.front(), samples.back());
    source = least;
    source_count = most - least + 1;
    for (int& sample : samples) {
        sample -= source;
    }
}

void NearestSink::begin(const NearestTable& columns, const NearestTable& rows, const DecodedRows& source,
                        RowWriter& writer) {
    columns_ = &columns;
    rows_ = &rows;
    writer_ = &writer;
    source_.begin(kMaxRows, rgb_bytes(source.pixels), 0, rgb_bytes(source.skipped));
    next_ = 0;
}

void NearestSink::commit(int y, int count) noexcept {
    for (int source = y; source < y + count; ++source) {
        for (; next_ < rows_->samples.size() && rows_->samples[next_] == source; ++next_) {
            const std::uint8_t* const from = source_.pixels(source);
            std::uint8_t* output = writer_->row(static_cast<int>(next_));
            for (const int column : columns_->samples) {
                std::memcpy(output, from + 3 * static_cast<std::ptrdiff_t>(column), 3);
                output += 3;
            }
            writer_->commit(static_cast<int>(next_));
        }
    }
}

}  // namespace spdl
