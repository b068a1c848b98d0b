#include "core/lzw.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace spdl {

std::optional<std::size_t> gif_lzw_length(Bytes codes, unsigned bits, std::size_t wanted) {
    constexpr unsigned kMostBits = 12;
    const unsigned clear = 1U << bits;
    const unsigned end = clear + 1;
    // How many bytes each code stands for: one more than the code that it continues.
    std::array<std::uint16_t, 1U << kMostBits> lengths{};
    std::fill_n(lengths.begin(), clear, std::uint16_t{1});
    unsigned next = end + 1;
    unsigned width = bits + 1;
    std::size_t previous = 0;  // The length of the last code; 0 behind a clear code.
    std::size_t made = 0;
    std::uint32_t buffer = 0;
    unsigned held = 0;
    auto at = codes.begin();
    while (made < wanted) {
        while (held < width) {
            if (at == codes.end()) {
                return made;
            }
            buffer |= std::uint32_t{*at++} << held;
            held += 8;
        }
        const unsigned code = buffer & ((1U << width) - 1);
        buffer >>= width;
        held -= width;
        if (code == end) {
            return made;
        }
        if (code == clear) {
            next = end + 1;
            width = bits + 1;
            previous = 0;
            continue;
        }
        if (previous == 0 ? code > clear : code > next || (code == next && next == lengths.size())) {
            return std::nullopt;
        }
        const std::size_t length = previous != 0 && code == next ? previous + 1 : lengths[code];
        if (previous != 0 && next < lengths.size()) {
            lengths[next] = static_cast<std::uint16_t>(previous + 1);
            if (++next == 1U << width && width < kMostBits) {
                ++width;
            }
        }
        previous = length;
        made += length;
    }
    return wanted;
}

}  // namespace spdl
