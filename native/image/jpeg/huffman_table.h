#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spdl {

// What one look at a scan finds: a Huffman code with the bits of its value behind it, or two of these where they are
// short. Coefficients are counted in the order in which they are coded.
class HuffmanSymbols {
  public:
    // As a run: past the last coefficient of a block, wherever it starts.
    static constexpr unsigned kEndOfBlock = 64;
    // What `advance` is at most.
    static constexpr unsigned kMaxAdvance = 16 + kEndOfBlock + 1;

    constexpr HuffmanSymbols() = default;
    constexpr HuffmanSymbols(unsigned length, unsigned value_bits, unsigned run)
        : packed_(length | length << 8U | value_bits << 16U | run << 24U | std::uint64_t{run + 1} << 32U) {}

    // This symbol and behind it another one, whose value is known.
    [[nodiscard]] constexpr HuffmanSymbols with(HuffmanSymbols second, int value) const {
        HuffmanSymbols both;
        both.packed_ = packed_ + second.length() + (std::uint64_t{second.advance()} << 32U) +
                       (std::uint64_t{static_cast<std::uint16_t>(value)} << 48U);
        return both;
    }

    // False for what stands for nothing.
    [[nodiscard]] constexpr bool found() const { return packed_ != 0; }

    // In bits, values included.
    [[nodiscard]] constexpr unsigned length() const { return static_cast<unsigned>(packed_) & 63U; }

    // Of the first one alone, of which the last bits are the value.
    [[nodiscard]] constexpr unsigned first_length() const { return static_cast<unsigned>(packed_ >> 8U) & 63U; }
    [[nodiscard]] constexpr unsigned first_value_bits() const { return static_cast<unsigned>(packed_ >> 16U) & 15U; }

    [[nodiscard]] constexpr HuffmanSymbols first() const {
        return found() ? HuffmanSymbols(first_length(), first_value_bits(), first_run()) : HuffmanSymbols();
    }

    // How many zero coefficients come before the first one.
    [[nodiscard]] constexpr unsigned first_run() const { return static_cast<unsigned>(packed_) >> 24U; }

    // How many coefficients there are, zeros included. The value of the second symbol is the last of them.
    [[nodiscard]] constexpr unsigned advance() const { return static_cast<unsigned>(packed_ >> 32U) & 127U; }
    [[nodiscard]] int second_value() const { return static_cast<int>(static_cast<std::int64_t>(packed_) >> 48U); }

  private:
    std::uint64_t packed_ = 0;
};

// The value whose `size` bits are the highest of `bits`. The first bit of a positive one is set; a negative one has the
// bits of its absolute value, each inverted.
inline int huffman_value(std::uint64_t bits, unsigned size) {
    const auto low = static_cast<std::int64_t>((bits >> 1U) >> (63U - size));
    const auto mask = static_cast<std::int64_t>((1U << size) - 1U);
    const std::int64_t positive = static_cast<std::int64_t>(bits) >> 63U;
    return static_cast<int>(low - (mask & ~positive));
}

// A Huffman table of a JPEG, in a form that finds most symbols with one look at the next kBits bits.
class HuffmanTable {
  public:
    // One more finds more pairs, but its tables leave the first-level cache to the rest of the decoding too rarely.
    static constexpr unsigned kBits = 10;

    // The bits of a long symbol at most, and of a short one: one of each, in either order, are in 56 bits.
    static constexpr unsigned kLongest = 31;
    static constexpr unsigned kLongestShort = 25;

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

    // What is at the head of the 64 bits `next`; nothing where that is not short.
    [[nodiscard]] HuffmanSymbols short_symbols(std::uint64_t next) const { return short_[next >> (64U - kBits)]; }

    // The one symbol there, be it short or long; what is no code is 17 bits long and stands for symbol 0, as in
    // libjpeg.
    [[nodiscard]] HuffmanSymbols any_symbol(std::uint64_t next) const;

  private:
    [[nodiscard]] HuffmanSymbols symbol(unsigned code_length, unsigned symbol) const;
    void join_pairs();

    std::array<HuffmanSymbols, std::size_t{1} << kBits> short_{};
    std::array<std::uint32_t, 17> limits_{};  // 16 bits as large as this have a longer code, for each length.
    std::array<std::int32_t, 17> offsets_{};  // From a code of each length to its symbol's index.
    Definition definition_;
    Kind kind_ = Kind::kDc;
    bool built_ = false;
};

}  // namespace spdl
