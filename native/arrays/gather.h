#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace spdl {

// Rows in a random place cost a cache miss each. These functions ask for the memory of a row some rows before its turn,
// so that several misses are under way. All of them throw std::invalid_argument for a row that is not there.

// Copies rows of a table of bytes.
void gather_rows(std::span<const std::uint8_t> table, std::size_t width, std::span<const std::int64_t> rows,
                 std::span<std::uint8_t> target);

// Writes where the lists of some rows begin when they are put one after the other, and where the last one ends. List i
// has the values from offsets[i] to before offsets[i + 1].
template <typename Offset>
void gather_offsets(std::span<const Offset> offsets, std::span<const std::int64_t> rows,
                    std::span<std::int64_t> target);

// Copies the values of the lists of some rows, which are `width` bytes each. `places` is from gather_offsets.
template <typename Offset>
void gather_lists(std::span<const Offset> offsets, std::span<const std::uint8_t> values, std::size_t width,
                  std::span<const std::int64_t> rows, std::span<const std::int64_t> places,
                  std::span<std::uint8_t> target);

// A column of numbers of 1, 2, 4 or 8 bytes, and its place in a record.
struct Field {
    const std::uint8_t* values = nullptr;
    std::size_t width = 0;
    std::size_t offset = 0;
};

// Writes the columns into records of `stride` bytes. The columns have as many numbers as there are records.
void interleave(std::span<const Field> fields, std::size_t stride, std::span<std::uint8_t> records);

}  // namespace spdl
