#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace spdl {

// Returns a number that is stored as in most file formats, at any address.
template <std::unsigned_integral T>
T load_le(const std::uint8_t* bytes) {
    if constexpr (std::endian::native == std::endian::little) {
        T value;
        std::memcpy(&value, bytes, sizeof(T));
        return value;
    } else {
        T value = 0;
        for (std::size_t index = sizeof(T); index-- > 0;) {
            value = static_cast<T>(value << 8 | bytes[index]);
        }
        return value;
    }
}

// Stores a number so.
template <std::unsigned_integral T>
void store_le(std::uint8_t* bytes, T value) {
    for (std::size_t index = 0; index < sizeof(T); ++index) {
        bytes[index] = static_cast<std::uint8_t>(value >> (8 * index));
    }
}

}  // namespace spdl
