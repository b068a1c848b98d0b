#pragma once

#include <cstddef>
#include <optional>

#include "core/bytes.h"

namespace spdl {

// Reads numbers that are not whole bytes, the highest bit first. Behind the end there are zeros.
class BitReader {
  public:
    explicit BitReader(Bytes bytes) : bytes_(bytes) {}

    // Returns the next bits as a number, at most 32.
    unsigned take(int count) {
        unsigned value = 0;
        for (int i = 0; i < count; ++i) {
            value = value << 1U | bit();
        }
        return value;
    }

    void skip(std::size_t count) { at_ += count; }

    // Returns the next Exp-Golomb code (ITU-T H.264, 9.1); nothing if it is too long for one.
    std::optional<unsigned> exp_golomb() {
        int zeros = 0;
        while (zeros < 32 && bit() == 0) {
            ++zeros;
        }
        if (zeros >= 32) {
            return std::nullopt;
        }
        return (1U << static_cast<unsigned>(zeros)) - 1 + take(zeros);
    }

  private:
    unsigned bit() {
        const std::size_t byte = at_ / 8;
        const unsigned value = byte < bytes_.size() ? bytes_[byte] >> (7 - at_ % 8) & 1U : 0;
        ++at_;
        return value;
    }

    Bytes bytes_;
    std::size_t at_ = 0;
};

}  // namespace spdl
