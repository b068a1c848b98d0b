#include "image/png/png_passes.h"

#include <cstring>

namespace spdl {
namespace {

template <std::size_t kBytes>
void spread_bytes(const PngPass& pass, const std::uint8_t* row, std::uint8_t* to) noexcept {
    const std::size_t distance = kBytes * static_cast<std::size_t>(pass.across);
    to += kBytes * static_cast<std::size_t>(pass.left);
    for (int x = 0; x < pass.size.width; ++x, row += kBytes, to += distance) {
        std::memcpy(to, row, kBytes);
    }
}

void spread_bits(const PngPass& pass, const std::uint8_t* row, unsigned bits, std::uint8_t* to) noexcept {
    const auto count = static_cast<unsigned>(pass.size.width);
    for (unsigned x = 0; x < count; ++x) {
        const unsigned from = x * bits;
        const unsigned at = (static_cast<unsigned>(pass.left) + x * static_cast<unsigned>(pass.across)) * bits;
        const unsigned sample = (row[from / 8] >> (8 - bits - from % 8)) & ((1U << bits) - 1);
        to[at / 8] = static_cast<std::uint8_t>(to[at / 8] | sample << (8 - bits - at % 8));
    }
}

}  // namespace

std::array<PngPass, 7> png_passes(Size whole) noexcept {
    std::array<PngPass, 7> passes{{{0, 0, 8, 8, {}},
                                   {4, 0, 8, 8, {}},
                                   {0, 4, 4, 8, {}},
                                   {2, 0, 4, 4, {}},
                                   {0, 2, 2, 4, {}},
                                   {1, 0, 2, 2, {}},
                                   {0, 1, 1, 2, {}}}};
    for (PngPass& pass : passes) {
        pass.size = {(whole.width - pass.left + pass.across - 1) / pass.across,
                     (whole.height - pass.top + pass.down - 1) / pass.down};
        if (pass.size.width <= 0 || pass.size.height <= 0) {
            pass.size = {};
        }
    }
    return passes;
}

void spread_png_row(const PngPass& pass, const std::uint8_t* row, int pixel_bits, std::uint8_t* to) noexcept {
    switch (pixel_bits) {
        case 8:
            return spread_bytes<1>(pass, row, to);
        case 16:
            return spread_bytes<2>(pass, row, to);
        case 24:
            return spread_bytes<3>(pass, row, to);
        case 32:
            return spread_bytes<4>(pass, row, to);
        case 48:
            return spread_bytes<6>(pass, row, to);
        case 64:
            return spread_bytes<8>(pass, row, to);
        default:
            return spread_bits(pass, row, static_cast<unsigned>(pixel_bits), to);
    }
}

}  // namespace spdl
