#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spdl {

// One Huffman code with the bits of the value that follows it, as both the table and the slow way give it.
struct HuffmanSymbol {
    static constexpr unsigned kEndOfBlock = 64;  // As a run: past the last coefficient, wherever it starts.

    std::uint32_t packed = 0;

    static constexpr HuffmanSymbol make(unsigned length, unsigned value_bits, unsigned run) {
        return {length | value_bits << 8U | run << 16U};
    }

    // Of code and value together. In the low six bits alone, so that a shift by `packed` takes it as it is.
    [[nodiscard]] unsigned length() const { return packed & 63U; }

    // How many of the last bits are the value.
    [[nodiscard]] unsigned value_bits() const { return (packed >> 8U) & 15U; }

    // How many zero coefficients come before this one.
    [[nodiscard]] unsigned run() const { return packed >> 16U; }
};

// A Huffman table of a JPEG, in the form that decodes most symbols with one look at the next kBits bits.
class HuffmanTable {
  public:
    static constexpr unsigned kBits = 11;

    // What a DHT segment says: how many codes there are of each length from 1 to 16, and their symbols.
    struct Definition {
        std::array<std::uint8_t, 17> counts{};
        std::array<std::uint8_t, 256> symbols{};
        bool operator==(const Definition&) const = default;
    };

    enum class Kind : std::uint8_t { kDc, kAc };

    // `definition` is one that libjpeg has accepted: the codes fit, and DC symbols are at most 15.
    void build(const Definition& definition, Kind kind);

    [[nodiscard]] bool is(const Definition& definition, Kind kind) const {
        return built_ && kind_ == kind && definition_ == definition;
    }

    // The symbol at the head of the 64 bits `next`; its packed form is 0 where the code is longer than kBits.
    [[nodiscard]] HuffmanSymbol short_symbol(std::uint64_t next) const { return {short_[next >> (64U - kBits)]}; }

    // The same for every code; what is none is 17 bits long and stands for symbol 0, as in libjpeg.
    [[nodiscard]] HuffmanSymbol any_symbol(std::uint64_t next) const;

  private:
    [[nodiscard]] HuffmanSymbol symbol(unsigned code_length, unsigned symbol) const;

    std::array<std::uint32_t, std::size_t{1} << kBits> short_{};
    std::array<std::uint32_t, 17> limits_{};  // 16 bits as large as this have a longer code, for each length.
    std::array<std::int32_t, 17> offsets_{};  // From a code of each length to its symbol's index.
    Definition definition_;
    Kind kind_ = Kind::kDc;
    bool built_ = false;
};

}  // namespace spdl
