#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/bytes.h"

namespace spdl {

// Returns the bytes from `offset` on; nothing if the bytes end before it.
inline Bytes tail(Bytes bytes, std::size_t offset) {
    return offset < bytes.size() ? bytes.subspan(offset) : Bytes();
}

// Returns an integer of `size` bytes, 4 at most; 0 if the bytes end before it does.
inline std::uint32_t read_integer(Bytes bytes, std::size_t offset, std::size_t size, bool little_endian) {
    const Bytes rest = tail(bytes, offset);
    if (rest.size() < size) {
        return 0;
    }
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
        value = value << 8U | rest[little_endian ? size - 1 - i : i];
    }
    return value;
}

inline bool starts_with(Bytes bytes, std::string_view text) {
    return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

}  // namespace spdl
