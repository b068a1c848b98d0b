#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "arrays/arrays.h"

namespace spdl {
namespace {

// A miss takes about as long as the copying of so many rows.
constexpr std::size_t kAhead = 16;

void fetch(const void* place) {
    __builtin_prefetch(place);
}

std::size_t checked(std::int64_t row, std::size_t count) {
    if (row < 0 || static_cast<std::size_t>(row) >= count) {
        throw std::invalid_argument("there is no row " + std::to_string(row) + " of " + std::to_string(count));
    }
    return static_cast<std::size_t>(row);
}

template <std::size_t kWidth>
void copy_rows(const std::uint8_t* table, std::size_t width, std::span<const std::int64_t> rows, std::uint8_t* target) {
    const std::size_t size = kWidth == 0 ? width : kWidth;
    for (std::size_t at = 0; at < rows.size(); ++at) {
        if (at + kAhead < rows.size()) {
            const std::uint8_t* const next = table + static_cast<std::size_t>(rows[at + kAhead]) * size;
            fetch(next);
            // It may reach into another line.
            fetch(next + size - 1);
        }
        std::memcpy(target + at * size, table + static_cast<std::size_t>(rows[at]) * size, size);
    }
}

template <typename Number>
void write_field(const Field& field, std::size_t first, std::size_t count, std::size_t stride, std::uint8_t* records) {
    const std::uint8_t* source = field.values + first * sizeof(Number);
    std::uint8_t* target = records + first * stride + field.offset;
    for (std::size_t at = 0; at < count; ++at, source += sizeof(Number), target += stride) {
        std::memcpy(target, source, sizeof(Number));
    }
}

}  // namespace

void gather_rows(std::span<const std::uint8_t> table, std::size_t width, std::span<const std::int64_t> rows,
                 std::span<std::uint8_t> target) {
    if (width == 0 || table.size() % width != 0 || target.size() != rows.size() * width) {
        throw std::invalid_argument("the table or the target has no such rows");
    }
    for (const std::int64_t row : rows) {
        checked(row, table.size() / width);
    }
    switch (width) {
        case 16:
            return copy_rows<16>(table.data(), width, rows, target.data());
        case 32:
            return copy_rows<32>(table.data(), width, rows, target.data());
        case 48:
            return copy_rows<48>(table.data(), width, rows, target.data());
        case 64:
            return copy_rows<64>(table.data(), width, rows, target.data());
        default:
            return copy_rows<0>(table.data(), width, rows, target.data());
    }
}

template <typename Offset>
void gather_offsets(std::span<const Offset> offsets, std::span<const std::int64_t> rows,
                    std::span<std::int64_t> target) {
    if (offsets.empty() || target.size() != rows.size() + 1) {
        throw std::invalid_argument("there are no offsets, or not as many places as rows");
    }
    target[0] = 0;
    for (std::size_t at = 0; at < rows.size(); ++at) {
        if (at + kAhead < rows.size()) {
            fetch(offsets.data() + checked(rows[at + kAhead], offsets.size() - 1));
        }
        const std::size_t row = checked(rows[at], offsets.size() - 1);
        if (offsets[row] < 0 || offsets[row + 1] < offsets[row]) {
            throw std::invalid_argument("a list ends before it begins");
        }
        target[at + 1] = target[at] + static_cast<std::int64_t>(offsets[row + 1] - offsets[row]);
    }
}

template <typename Offset>
void gather_lists(std::span<const Offset> offsets, std::span<const std::uint8_t> values, std::size_t width,
                  std::span<const std::int64_t> rows, std::span<const std::int64_t> places,
                  std::span<std::uint8_t> target) {
    if (places.size() != rows.size() + 1 || places.front() != 0 ||
        static_cast<std::size_t>(places.back()) * width != target.size()) {
        throw std::invalid_argument("the target has another size than the lists");
    }
    for (std::size_t at = 0; at < rows.size(); ++at) {
        if (at + kAhead < rows.size()) {
            const std::size_t next = checked(rows[at + kAhead], offsets.size() - 1);
            fetch(values.data() + static_cast<std::size_t>(offsets[next]) * width);
        }
        const std::size_t row = checked(rows[at], offsets.size() - 1);
        const auto first = static_cast<std::size_t>(offsets[row]) * width;
        const auto size = static_cast<std::size_t>(offsets[row + 1] - offsets[row]) * width;
        const auto begin = static_cast<std::size_t>(places[at]) * width;
        if (first > values.size() || size > values.size() - first || begin > target.size() ||
            size > target.size() - begin) {
            throw std::invalid_argument("a list ends after its values");
        }
        std::memcpy(target.data() + begin, values.data() + first, size);
    }
}

template void gather_offsets(std::span<const std::int32_t>, std::span<const std::int64_t>, std::span<std::int64_t>);
template void gather_offsets(std::span<const std::int64_t>, std::span<const std::int64_t>, std::span<std::int64_t>);
template void gather_lists(std::span<const std::int32_t>, std::span<const std::uint8_t>, std::size_t,
                           std::span<const std::int64_t>, std::span<const std::int64_t>, std::span<std::uint8_t>);
template void gather_lists(std::span<const std::int64_t>, std::span<const std::uint8_t>, std::size_t,
                           std::span<const std::int64_t>, std::span<const std::int64_t>, std::span<std::uint8_t>);

void interleave(std::span<const Field> fields, std::size_t stride, std::span<std::uint8_t> records) {
    // A block of records stays in the cache until all columns are written.
    constexpr std::size_t kBlock = 512;
    if (stride == 0 || records.size() % stride != 0) {
        throw std::invalid_argument("there is no whole number of records");
    }
    for (const Field& field : fields) {
        if (field.offset > stride || field.width > stride - field.offset) {
            throw std::invalid_argument("a field is outside of its record");
        }
    }
    const std::size_t count = records.size() / stride;
    for (std::size_t first = 0; first < count; first += kBlock) {
        const std::size_t block = std::min(kBlock, count - first);
        for (const Field& field : fields) {
            switch (field.width) {
                case 1:
                    write_field<std::uint8_t>(field, first, block, stride, records.data());
                    break;
                case 2:
                    write_field<std::uint16_t>(field, first, block, stride, records.data());
                    break;
                case 4:
                    write_field<std::uint32_t>(field, first, block, stride, records.data());
                    break;
                case 8:
                    write_field<std::uint64_t>(field, first, block, stride, records.data());
                    break;
                default:
                    throw std::invalid_argument("a number has 1, 2, 4 or 8 bytes");
            }
        }
    }
}

}  // namespace spdl
