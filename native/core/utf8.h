#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// Returns whether the bytes are text in UTF-8, which Python takes.
inline bool is_utf8(Bytes bytes) {
    for (std::size_t i = 0; i < bytes.size();) {
        const std::uint8_t first = bytes[i++];
        const int more = first < 0x80 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        constexpr std::uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
        std::uint32_t point = more == 0 ? first : first & (0x3fU >> more);
        if ((first >= 0x80 && first < 0xc0) || first > 0xf4) {
            return false;
        }
        for (int k = 0; k < more; ++k, ++i) {
            if (i == bytes.size() || (bytes[i] & 0xc0U) != 0x80) {
                return false;
            }
            point = point << 6 | (bytes[i] & 0x3fU);
        }
        if (point < kLeast[more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
            return false;
        }
    }
    return true;
}

}  // namespace spdl
