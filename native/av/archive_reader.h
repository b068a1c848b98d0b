#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/bytes.h"
#include "core/media_error.h"

namespace spdl {

// Takes out what an ArchiveWriter put in. Throws MediaError if it cannot be there.
class ArchiveReader {
  public:
    explicit ArchiveReader(Bytes bytes) : rest_(bytes) {}

    template <typename T>
    T number() {
        T value;
        std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
        return value;
    }

    template <typename T>
    T number(const char* what, T least, T most) {
        const T value = number<T>();
        if (value < least || value > most) {
            throw MediaError(std::string("the pickled packets are damaged: ") + what + " is " + std::to_string(value));
        }
        return value;
    }

    // Returns a name of FFmpeg's.
    std::string text() {
        const Bytes bytes = take(number<std::uint32_t>());
        if (!std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte >= ' ' && byte <= '~'; })) {
            throw MediaError("the pickled packets are damaged: a name holds a byte that names do not have");
        }
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

    // Returns a text of the user's, in UTF-8.
    std::string user_text() {
        const Bytes bytes = take(number<std::uint32_t>());
        if (!is_utf8(bytes)) {
            throw MediaError("the pickled packets are damaged: a text is not in UTF-8");
        }
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

    Bytes data(std::size_t padding = 0) {
        const std::uint64_t size = number<std::uint64_t>();
        if (size > rest_.size()) {
            refuse();
        }
        const Bytes bytes = take(static_cast<std::size_t>(size));
        const Bytes zeros = take(padding);
        if (!std::ranges::all_of(zeros, [](std::uint8_t byte) { return byte == 0; })) {
            refuse();
        }
        return bytes;
    }

    // Throws if something is left.
    void finish() const {
        if (!rest_.empty()) {
            throw MediaError("the pickled packets are damaged: more follows than there should be");
        }
    }

  private:
    static bool is_utf8(Bytes bytes) {
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

    [[noreturn]] static void refuse() { throw MediaError("the pickled packets are damaged: a length is wrong"); }

    Bytes take(std::size_t size) {
        if (size > rest_.size()) {
            refuse();
        }
        const Bytes taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }

    Bytes rest_;
};

}  // namespace spdl
