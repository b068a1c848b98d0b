#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace spdl {

// Bytes to read, which the caller owns.
using Bytes = std::span<const std::uint8_t>;

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

// Returns a name out of untrusted bytes in a form for messages: long names are cut, and nothing in it can end or garble
// the line. Letters beyond ASCII stay unchanged, which need not be UTF-8, if `escape_others` is false.
inline std::string quoted(std::string_view name, bool escape_others = false) {
    constexpr std::size_t kShown = 200;
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text = "\"";
    for (const char letter : name.substr(0, kShown)) {
        const auto code = static_cast<unsigned char>(letter);
        if (code < 0x20 || code == 0x7f || (escape_others && code > 0x7f)) {
            text += "\\x";
            text += kDigits[code >> 4];
            text += kDigits[code & 15];
        } else {
            text += letter;
        }
    }
    return text + (name.size() > kShown ? "...\"" : "\"");
}

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
