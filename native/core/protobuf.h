#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spdl {

// A message in the encoding of Protocol Buffers, made without allocating. The caller sees to it that the fields fit:
// what does not is left out, and complete() says so.
template <std::size_t Capacity>
class ProtobufMessage {
  public:
    [[nodiscard]] std::string_view bytes() const { return {data_.data(), size_}; }
    [[nodiscard]] bool complete() const { return complete_; }

    ProtobufMessage& number(std::uint32_t field, std::uint64_t value) {
        varint(field << 3 | 0);
        varint(value);
        return *this;
    }

    ProtobufMessage& number(std::uint32_t field, double value) {
        varint(field << 3 | 1);
        const auto bits = std::bit_cast<std::uint64_t>(value);
        for (int shift = 0; shift < 64; shift += 8) {
            byte(bits >> shift);
        }
        return *this;
    }

    // A text, or the bytes of a message.
    ProtobufMessage& text(std::uint32_t field, std::string_view value) {
        varint(field << 3 | 2);
        varint(value.size());
        if (value.size() > Capacity - size_) {
            complete_ = false;
            return *this;
        }
        std::ranges::copy(value, data_.begin() + static_cast<std::ptrdiff_t>(size_));
        size_ += value.size();
        return *this;
    }

  private:
    void varint(std::uint64_t value) {
        while (value >= 0x80) {
            byte(value | 0x80);
            value >>= 7;
        }
        byte(value);
    }

    void byte(std::uint64_t value) {
        if (size_ == Capacity) {
            complete_ = false;
            return;
        }
        data_[size_++] = static_cast<char>(value & 0xff);
    }

    std::array<char, Capacity> data_;
    std::size_t size_ = 0;
    bool complete_ = true;
};

}  // namespace spdl
