#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>

// jpeglib.h wants cstdio first.
#include <jpeglib.h>

#include "core/bytes.h"
#include "core/non_copyable.h"

namespace spdl {

// A window that moves along the entropy-coded data of a scan, without its byte stuffing. Behind the last byte, in front
// of the marker that ends the scan, it holds zeros: libjpeg's decoder uses those for missing data.
class ScanWindow {
  public:
    // The bytes that can be read without a check, counted from any place at which `ready` was asked for them.
    static constexpr std::size_t kReach = 4096;

    // Starts at the beginning of `data`. Returns false, and begins nothing, if no marker follows, or if there is more
    // than one 0xff in front of a zero: libjpeg's result then depends on how far ahead of the decoding it has read.
    bool begin(Bytes data) noexcept;

    // Makes kReach bytes readable at `at`, the place where reading stopped last; at first, `start()`. Returns that
    // place, which may have moved.
    const std::uint8_t* ready(const std::uint8_t* at) noexcept { return at <= last_ready_ ? at : move(at); }

    [[nodiscard]] const std::uint8_t* start() const { return bytes_.data(); }

    // Returns the end of the data, as far as the window has come.
    [[nodiscard]] const std::uint8_t* end() const { return end_; }

    // Returns what follows the scan, from the marker that ends it on.
    [[nodiscard]] Bytes behind() const { return behind_; }

  private:
    static constexpr std::size_t kSize = std::size_t{1} << 15U;

    const std::uint8_t* move(const std::uint8_t* at) noexcept;
    void fill(std::uint8_t* to) noexcept;

    std::array<std::uint8_t, kSize + kReach> bytes_{};
    const std::uint8_t* end_ = nullptr;
    const std::uint8_t* last_ready_ = nullptr;
    Bytes rest_;  // The data that the window has not reached.
    Bytes behind_;
};

// The result of one look at a scan: a Huffman code with the bits of its value after it, or two of these if they are
// short. Coefficients are counted in the order in which they are coded.
class HuffmanSymbols {
  public:
    // A run that goes past the last coefficient of a block, wherever it starts.
    static constexpr unsigned kEndOfBlock = 64;
    // The largest value of `advance`.
    static constexpr unsigned kMaxAdvance = 16 + kEndOfBlock + 1;

    constexpr HuffmanSymbols() = default;
    constexpr HuffmanSymbols(unsigned length, unsigned value_bits, unsigned run)
        : packed_(length | length << 8U | value_bits << 16U | run << 24U | std::uint64_t{run + 1} << 32U) {}

    // Returns this symbol and another one after it, whose value is known.
    [[nodiscard]] constexpr HuffmanSymbols with(HuffmanSymbols second, int value) const {
        HuffmanSymbols both;
        both.packed_ = packed_ + second.length() + (std::uint64_t{second.advance()} << 32U) +
                       (std::uint64_t{static_cast<std::uint16_t>(value)} << 48U);
        return both;
    }

    // Returns false for an entry without a symbol.
    [[nodiscard]] constexpr bool found() const { return packed_ != 0; }

    // Returns the length in bits, values included.
    [[nodiscard]] constexpr unsigned length() const { return static_cast<unsigned>(packed_) & 63U; }

    // Returns the length of the first symbol alone. Its last bits are the value.
    [[nodiscard]] constexpr unsigned first_length() const { return static_cast<unsigned>(packed_ >> 8U) & 63U; }
    [[nodiscard]] constexpr unsigned first_value_bits() const { return static_cast<unsigned>(packed_ >> 16U) & 15U; }

    [[nodiscard]] constexpr HuffmanSymbols first() const {
        return found() ? HuffmanSymbols(first_length(), first_value_bits(), first_run()) : HuffmanSymbols();
    }

    // Returns how many zero coefficients come before the first one.
    [[nodiscard]] constexpr unsigned first_run() const { return static_cast<unsigned>(packed_) >> 24U; }

    // Returns how many coefficients there are, zeros included. The value of the second symbol is the last of them.
    [[nodiscard]] constexpr unsigned advance() const { return static_cast<unsigned>(packed_ >> 32U) & 127U; }
    [[nodiscard]] int second_value() const { return static_cast<int>(static_cast<std::int64_t>(packed_) >> 48U); }

  private:
    std::uint64_t packed_ = 0;
};

// Returns the value whose `size` bits are the highest of `bits`. The first bit of a positive value is set. A negative
// value has the bits of its absolute value, each inverted.
inline int huffman_value(std::uint64_t bits, unsigned size) {
    const auto low = static_cast<std::int64_t>((bits >> 1U) >> (63U - size));
    const auto mask = static_cast<std::int64_t>((1U << size) - 1U);
    const std::int64_t positive = static_cast<std::int64_t>(bits) >> 63U;
    return static_cast<int>(low - (mask & ~positive));
}

// A Huffman table of a JPEG, in a form that finds most symbols with one look at the next kBits bits.
class HuffmanTable {
  public:
    // With one bit more, a look finds more pairs, but the tables then too rarely leave the first-level cache to the
    // rest of the decoding.
    static constexpr unsigned kBits = 10;

    // The most bits of a long symbol, and of a short one: 56 bits hold one of each, in either order.
    static constexpr unsigned kLongest = 31;
    static constexpr unsigned kLongestShort = 25;

    // The content of a DHT segment: how many codes there are of each length from 1 to 16, and their symbols.
    struct Definition {
        std::array<std::uint8_t, 17> counts{};
        std::array<std::uint8_t, 256> symbols{};
        bool operator==(const Definition&) const = default;
    };

    enum class Kind : std::uint8_t { kDc, kAc };

    // libjpeg must have accepted `definition`: the codes fit, and DC symbols are at most 15.
    void build(const Definition& definition, Kind kind);

    [[nodiscard]] bool is(const Definition& definition, Kind kind) const {
        return built_ && kind_ == kind && definition_ == definition;
    }

    // Returns the entry at the head of the 64 bits `next`; nothing if it is not short.
    [[nodiscard]] HuffmanSymbols short_symbols(std::uint64_t next) const { return short_[next >> (64U - kBits)]; }

    // Returns the one symbol there, short or long. A code that does not exist is 17 bits long and stands for symbol 0,
    // as in libjpeg.
    [[nodiscard]] HuffmanSymbols any_symbol(std::uint64_t next) const;

  private:
    [[nodiscard]] HuffmanSymbols symbol(unsigned code_length, unsigned symbol) const;
    void join_pairs();

    std::array<HuffmanSymbols, std::size_t{1} << kBits> short_{};
    std::array<std::uint32_t, 17> limits_{};  // For each length: 16 bits as large as this have a longer code.
    std::array<std::int32_t, 17> offsets_{};  // From a code of each length to its symbol's index.
    Definition definition_;
    Kind kind_ = Kind::kDc;
    bool built_ = false;
};

// Our own decoder of the Huffman-coded coefficients of a JPEG, which take two thirds of the time in libjpeg-turbo. It
// works inside libjpeg-turbo and shares its private structures. So it is compiled in only if that library is built for
// us, from the version that this is written for (picture_libraries.cmake). Otherwise it takes over nothing.
//
// Its coefficients equal libjpeg's, even for damaged data. One thread at a time.
class EntropyDecoder : NonCopyable {
  public:
    static const bool kCompiledIn;

    EntropyDecoder();
    ~EntropyDecoder();

    // Takes over the entropy decoding of `codec`, and returns whether it did. jpeg_start_decompress must have just
    // returned, and all data must be in memory. It takes over a baseline image of one scan, with 8 bits and no restart
    // intervals, whose scan is ended by a marker. It leaves everything else to libjpeg's own decoder.
    bool take_over(jpeg_decompress_struct& codec) noexcept;

    // Returns whether the scan has ended before the last decoded rows did: zeros were read for the rest.
    [[nodiscard]] bool data_ran_out() const noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace spdl
