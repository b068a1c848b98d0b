#pragma once

#include <cstddef>
#include <cstdint>

namespace spdl {

// The filters of the PNG specification (https://www.w3.org/TR/png-3/#9Filters).
inline constexpr std::uint8_t kPngFilters = 5;

// How many bytes behind a row are read, and written as they were.
inline constexpr std::size_t kUnfilterSlack = 4;

// Undoes the filter of a row in place. `above` is the row above, without its filter; for the first one it is zeros.
// `step` is the bytes of a pixel, at least 1.
void unfilter(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above, std::size_t size,
              std::size_t step) noexcept;

}  // namespace spdl
