#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"
#include "core/geometry.h"

namespace spdl {

enum class BmpKind {
    kIndices,  // Of 1, 4 or 8 bits.
    kRuns4,    // Run lengths of indices.
    kRuns8,
    k555,  // Pixels of 16 bits.
    k565,
    kBytes,  // Pixels of whole bytes.
};

// What a BMP says of its picture.
struct BmpHeader {
    Size size;
    BmpKind kind = BmpKind::kBytes;
    bool top_down = false;
    std::size_t bits = 0;
    std::size_t pixels_at = 0;
    std::array<std::array<std::uint8_t, 3>, 256> colors{};  // Those that are not there are black.
    bool gray = false;                                      // The channels of all colours are equal.
    std::array<std::size_t, 4> order{2, 1, 0, 0};           // Where in a pixel red, green, blue and alpha lie.
    bool has_alpha = false;

    [[nodiscard]] bool has_runs() const { return kind == BmpKind::kRuns4 || kind == BmpKind::kRuns8; }

    // Rows begin at multiples of four bytes.
    [[nodiscard]] std::size_t row_bytes() const { return (static_cast<std::size_t>(size.width) * bits + 31) / 32 * 4; }
};

// Reads the headers that Pillow knows. Throws MediaError for others, and for pixels that it does not know.
BmpHeader read_bmp_header(Bytes bmp);

[[noreturn]] void refuse_bmp(const char* what);

}  // namespace spdl
