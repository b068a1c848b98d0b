#include "image/small/gif_lzw.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/little_endian.h"

namespace spdl {
namespace {

constexpr unsigned kMostBits = 12;

// Takes codes from the bytes, the lowest bit first.
class Codes {
  public:
    explicit Codes(Bytes bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

    // Returns nothing if the bytes end.
    std::optional<unsigned> next(unsigned width) {
        if (held_ < width && !fill(width)) {
            return std::nullopt;
        }
        const auto code = static_cast<unsigned>(bits_ & ((1U << width) - 1));
        bits_ >>= width;
        held_ -= width;
        return code;
    }

  private:
    bool fill(unsigned width) {
        constexpr unsigned kWord = 8;
        if (end_ - at_ >= static_cast<std::ptrdiff_t>(kWord)) {
            // What does not fit is read again.
            bits_ |= load_le<std::uint64_t>(at_) << held_;
            at_ += (63 - held_) / 8;
            held_ |= 56U;
            return true;
        }
        while (held_ < width) {
            if (at_ == end_) {
                return false;
            }
            bits_ |= std::uint64_t{*at_++} << held_;
            held_ += 8;
        }
        return true;
    }

    const std::uint8_t* at_;
    const std::uint8_t* end_;
    std::uint64_t bits_ = 0;
    unsigned held_ = 0;
};

// Copies bytes that may reach into what is written.
void repeat(const std::uint8_t* from, std::uint8_t* to, std::size_t count) {
    if (to - from < static_cast<std::ptrdiff_t>(kLzwSlack)) {
        for (std::size_t i = 0; i < count; ++i) {
            to[i] = from[i];
        }
        return;
    }
    for (std::size_t i = 0; i < count; i += kLzwSlack) {
        std::memcpy(to + i, from + i, kLzwSlack);
    }
}

// The bytes that a code stands for: they were made before.
struct String {
    std::size_t at;
    std::size_t length;
};

}  // namespace

std::optional<std::size_t> decode_gif_lzw(Bytes bytes, unsigned bits, std::uint8_t* to, std::size_t wanted) {
    const unsigned clear = 1U << bits;
    const unsigned end = clear + 1;
    std::array<String, 1U << kMostBits> strings;  // NOLINT(*-member-init): those below `next`, behind `end`, are known.
    unsigned next = end + 1;
    unsigned width = bits + 1;
    String last{0, 0};  // What the last code stood for; empty behind a clear code.
    std::size_t made = 0;
    Codes codes(bytes);
    while (made < wanted) {
        const std::optional<unsigned> read = codes.next(width);
        if (!read || *read == end) {
            return made;
        }
        const unsigned code = *read;
        if (code == clear) {
            next = end + 1;
            width = bits + 1;
            last.length = 0;
            continue;
        }
        // A code may stand for the string that it ends: the last one and its own first byte.
        if (last.length == 0 ? code > clear : code > next || (code == next && next == strings.size())) {
            return std::nullopt;
        }
        const String longer{last.at, last.length + 1};
        String now{made, 1};
        if (code < clear) {
            to[made] = static_cast<std::uint8_t>(code);
        } else {
            const String& string = code == next ? longer : strings[code];
            now.length = std::min(string.length, wanted - made);
            repeat(to + string.at, to + made, now.length);
        }
        if (last.length > 0 && next < strings.size()) {
            strings[next] = longer;
            if (++next == 1U << width && width < kMostBits) {
                ++width;
            }
        }
        last = now;
        made += now.length;
    }
    return wanted;
}

}  // namespace spdl
