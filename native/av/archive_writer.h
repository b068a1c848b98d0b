#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/bytes.h"

namespace spdl {

static_assert(std::endian::native == std::endian::little, "archives hold numbers with the lowest byte first");

// Puts values behind each other.
class ArchiveWriter {
  public:
    template <typename T>
    void number(T value) {
        static_assert(std::is_integral_v<T>);
        const std::size_t at = bytes_.size();
        bytes_.resize(at + sizeof(value));
        std::memcpy(bytes_.data() + at, &value, sizeof(value));
    }

    void text(std::string_view value) {
        number(static_cast<std::uint32_t>(value.size()));
        bytes_.insert(bytes_.end(), value.begin(), value.end());
    }

    // Zeros follow, as decoders need them that read in place.
    void data(Bytes value, std::size_t padding = 0) {
        number(static_cast<std::uint64_t>(value.size()));
        bytes_.insert(bytes_.end(), value.begin(), value.end());
        bytes_.resize(bytes_.size() + padding);
    }

    void reserve(std::size_t size) { bytes_.reserve(bytes_.size() + size); }

    std::vector<std::uint8_t>& bytes() { return bytes_; }

  private:
    std::vector<std::uint8_t> bytes_;
};

}  // namespace spdl
