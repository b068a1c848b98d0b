#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>

namespace spdl::fuzz {

// Numbers that follow from an input's own bytes. So the options change with the input, and an input that shows a fault
// always does.
class Draw {
  public:
    explicit Draw(std::span<const std::uint8_t> input) {
        for (const std::uint8_t byte : input) {
            state_ = (state_ ^ byte) * 0x100000001b3U;  // FNV-1a.
        }
    }

    std::size_t below(std::size_t limit) {
        // splitmix64 (G. Steele et al., 2014).
        std::uint64_t value = state_ += 0x9e3779b97f4a7c15U;
        value = (value ^ value >> 30U) * 0xbf58476d1ce4e5b9U;
        value = (value ^ value >> 27U) * 0x94d049bb133111ebU;
        return (value ^ value >> 31U) % limit;
    }

    bool one_in(std::size_t count) { return below(count) == 0; }

    template <typename Value>
    Value one_of(std::initializer_list<Value> values) {
        return std::data(values)[below(values.size())];
    }

  private:
    std::uint64_t state_ = 0xcbf29ce484222325U;
};

}  // namespace spdl::fuzz
