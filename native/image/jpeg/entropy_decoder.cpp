#include "image/jpeg/entropy_decoder.h"

#ifdef SPDL_PINNED_LIBRARIES

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

// The private declarations. Those of another version would give wrong results without an error.
extern "C" {
#include <jpegint.h>
}

static_assert(LIBJPEG_TURBO_VERSION_NUMBER == 3001002, "written for the private structures of libjpeg-turbo 3.1.2");

namespace spdl {
namespace {

constexpr std::uint8_t kMarker = 0xff;

const std::uint8_t* find_marker(const std::uint8_t* from, std::size_t size) {
    return static_cast<const std::uint8_t*>(std::memchr(from, kMarker, size));
}

// Returns the data in front of the marker that ends them. Returns nothing without a marker, or if more than one 0xff
// stands in front of a zero. Both are against the standard, and libjpeg's result depends on how far it has read ahead.
std::optional<Bytes> entropy_coded(Bytes data) {
    const std::uint8_t* at = data.data();
    const std::uint8_t* const end = at + data.size();
    while ((at = find_marker(at, static_cast<std::size_t>(end - at))) != nullptr && end - at > 1) {
        if (at[1] != 0) {
            const std::uint8_t* const next = std::find_if(at, end, [](std::uint8_t byte) { return byte != kMarker; });
            if (next == end || *next == 0) {
                return {};
            }
            return Bytes(data.data(), at);
        }
        at += 2;
    }
    return {};
}

}  // namespace

bool ScanWindow::begin(Bytes data) noexcept {
    const std::optional<Bytes> coded = entropy_coded(data);
    if (!coded) {
        return false;
    }
    rest_ = *coded;
    behind_ = data.subspan(coded->size());
    fill(bytes_.data());
    return true;
}

const std::uint8_t* ScanWindow::move(const std::uint8_t* at) noexcept {
    const auto kept = static_cast<std::size_t>(end_ - at);
    std::memmove(bytes_.data(), at, kept);
    fill(bytes_.data() + kept);
    return bytes_.data();
}

void ScanWindow::fill(std::uint8_t* to) noexcept {
    std::uint8_t* const stop = bytes_.data() + kSize;
    while (to != stop && !rest_.empty()) {
        const std::size_t room = std::min(static_cast<std::size_t>(stop - to), rest_.size());
        const std::uint8_t* const found = find_marker(rest_.data(), room);
        const std::size_t taken = found == nullptr ? room : static_cast<std::size_t>(found + 1 - rest_.data());
        std::memcpy(to, rest_.data(), taken);
        to += taken;
        // The zero after an 0xff is not data. It is missing only if the bytes were changed in the meantime.
        rest_ = rest_.subspan(found == nullptr ? taken : std::min(taken + 1, rest_.size()));
    }
    end_ = to;
    last_ready_ = to - kReach;
    if (rest_.empty()) {
        std::memset(to, 0, kReach);
        last_ready_ = to;
    }
}

HuffmanSymbols HuffmanTable::symbol(unsigned code_length, unsigned symbol) const {
    const unsigned value_bits = symbol & 15U;
    unsigned run = symbol >> 4U;
    if (kind_ == Kind::kDc) {
        run = 0;
    } else if (value_bits == 0 && run != 15) {
        run = HuffmanSymbols::kEndOfBlock;
    }
    return {code_length + value_bits, value_bits, run};
}

void HuffmanTable::build(const Definition& definition, Kind kind) {
    definition_ = definition;
    kind_ = kind;
    short_.fill({});
    unsigned code = 0;
    unsigned index = 0;
    for (unsigned length = 1; length <= 16; ++length) {
        offsets_[length] = static_cast<std::int32_t>(index) - static_cast<std::int32_t>(code);
        for (unsigned i = 0; i < definition.counts[length]; ++i) {
            const HuffmanSymbols found = symbol(length, definition.symbols[index]);
            if (length <= kBits && found.length() <= kLongestShort) {
                const unsigned same = 1U << (kBits - length);
                std::fill_n(short_.begin() + code * same, same, found);
            }
            ++code;
            ++index;
        }
        limits_[length] = definition.counts[length] == 0 ? 0 : code << (16U - length);
        code <<= 1U;
    }
    if (kind == Kind::kAc) {
        join_pairs();
    }
    built_ = true;
}

void HuffmanTable::join_pairs() {
    for (std::size_t index = 0; index < short_.size(); ++index) {
        HuffmanSymbols& first = short_[index];
        if (first.length() >= kBits || first.first_run() == HuffmanSymbols::kEndOfBlock) {
            continue;
        }
        // Bits beyond the index are zeros here. A symbol that needs them does not fit.
        const std::size_t rest = index << first.length() & (short_.size() - 1);
        const HuffmanSymbols second = short_[rest].first();
        if (second.found() && first.length() + second.length() <= kBits) {
            const unsigned code_length = second.length() - second.first_value_bits();
            const std::uint64_t bits = static_cast<std::uint64_t>(rest) << (64U - kBits + code_length);
            first = first.with(second, huffman_value(bits, second.first_value_bits()));
        }
    }
}

HuffmanSymbols HuffmanTable::any_symbol(std::uint64_t next) const {
    const auto head = static_cast<std::uint32_t>(next >> 48U);
    for (unsigned length = 1; length <= 16; ++length) {
        if (head < limits_[length]) {
            const auto code = static_cast<std::int32_t>(head >> (16U - length));
            return symbol(length, definition_.symbols[static_cast<std::size_t>(code + offsets_[length])]);
        }
    }
    return symbol(17, 0);
}

namespace {

// The places of the coefficients in a block, in the order in which they are coded. Runs that lead out of the block end
// at its last coefficient, as in libjpeg; so does the zero that is stored at the end of a block.
constexpr std::array<std::uint8_t, 63 + HuffmanSymbols::kMaxAdvance> kNaturalOrder = [] {
    std::array<std::uint8_t, 63 + HuffmanSymbols::kMaxAdvance> order{};
    order.fill(63);
    int x = 0;
    int y = 0;
    for (std::size_t i = 0; i < 64; ++i) {
        order[i] = static_cast<std::uint8_t>(8 * y + x);
        const bool up = (x + y) % 2 == 0;
        int& along = up ? x : y;
        int& against = up ? y : x;
        if (along == 7) {
            ++against;
        } else {
            ++along;
            against = std::max(against - 1, 0);
        }
    }
    return order;
}();

std::uint64_t load_big_endian(const std::uint8_t* from) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    if constexpr (std::endian::native == std::endian::little) {
        value = __builtin_bswap64(value);
    }
    return value;
}

// A place between two bits of the scan.
struct BitPosition {
    const std::uint8_t* byte = nullptr;
    unsigned bit = 0;
};

// Reads bits from a place on, without checking for an end.
class BitReader {
  public:
    // A refill brings this many bits: two short symbols or one long one.
    static constexpr unsigned kRefilled = 56;

    explicit BitReader(BitPosition at)
        : next_(load_big_endian(at.byte) << at.bit), source_(at.byte + 7), count_(kRefilled - at.bit) {}

    [[nodiscard]] std::uint64_t next() const { return next_; }

    void refill() {
        next_ |= load_big_endian(source_) >> count_;
        source_ += (63U - count_) >> 3U;
        count_ |= kRefilled;
    }

    void drop(unsigned count) {
        next_ <<= count;
        count_ -= count;
    }

    [[nodiscard]] BitPosition position() const { return {source_ - ((count_ + 7U) >> 3U), -count_ & 7U}; }

  private:
    std::uint64_t next_;          // The next bits, from the highest on.
    const std::uint8_t* source_;  // The next byte for a refill.
    unsigned count_;              // The number of bits of `next_` that come from before `source_`.
};

// Returns the entry at the head of `bits`. A refill is enough for two of these.
inline HuffmanSymbols look(const HuffmanTable& table, BitReader& bits) {
    static_assert(HuffmanTable::kLongest + HuffmanTable::kLongestShort <= BitReader::kRefilled);
    const HuffmanSymbols symbols = table.short_symbols(bits.next());
    if (!symbols.found()) [[unlikely]] {
        bits.refill();
        return table.any_symbol(bits.next());
    }
    return symbols;
}

inline int first_value(HuffmanSymbols symbols, const BitReader& bits) {
    const unsigned size = symbols.first_value_bits();
    return huffman_value(bits.next() << (symbols.first_length() - size), size);
}

// Decodes the next symbols of a block, from coefficient `k` on, and returns whether they are its last ones.
template <bool kStore>
inline bool step(const HuffmanTable& table, BitReader& bits, JCOEF* coefficients, unsigned& k) {
    const HuffmanSymbols symbols = look(table, bits);
    const unsigned first = k + symbols.first_run();
    k += symbols.advance();
    if constexpr (kStore) {
        // The order matters, since both may be in the place of the last coefficient. Without a second symbol, its value
        // is 0, in the place of the first.
        coefficients[kNaturalOrder[k - 1]] = static_cast<JCOEF>(symbols.second_value());
        coefficients[kNaturalOrder[first]] = static_cast<JCOEF>(first_value(symbols, bits));
    }
    if (k < DCTSIZE2) {
        bits.drop(symbols.length());
        return false;
    }
    // The next block begins after the last coefficient.
    bits.drop(first < DCTSIZE2 - 1 ? symbols.length() : symbols.first_length());
    return true;
}

}  // namespace

struct EntropyDecoder::State : jpeg_entropy_decoder {
    struct Block {
        const HuffmanTable* dc;
        const HuffmanTable* ac;
        std::size_t component;
    };

    // Both follow libjpeg's decode_mcu_slow. The place in the scan is the only other state. If it lies after the end,
    // zeros were read for the missing data, and no more data is read.
    static boolean decode_next(j_decompress_ptr codec, JBLOCKROW* mcu);
    template <bool kStore>
    void decode(JBLOCKROW* mcu);

    const HuffmanTable* table(const JHUFF_TBL& from, HuffmanTable::Kind kind);

    ScanWindow window;
    BitPosition at;
    std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks{};
    std::size_t block_count = 0;
    std::array<unsigned, MAX_COMPS_IN_SCAN> predictions{};  // May overflow if the data are damaged.

    // Most folders have a few encoders, and building a table costs as much as decoding some hundred blocks. An image
    // has eight tables at most, so its tables do not displace each other.
    struct Kept {
        HuffmanTable table;
        std::uint64_t used = 0;
    };
    std::array<Kept, 2 * NUM_HUFF_TBLS> tables;
    std::uint64_t uses = 0;
};

boolean EntropyDecoder::State::decode_next(j_decompress_ptr codec, JBLOCKROW* mcu) {
    auto& state = static_cast<State&>(*codec->entropy);
    if (state.insufficient_data == FALSE) {
        if (mcu == nullptr) {
            state.decode<false>(mcu);
        } else {
            state.decode<true>(mcu);
        }
    }
    return TRUE;
}

template <bool kStore>
void EntropyDecoder::State::decode(JBLOCKROW* mcu) {
    static_assert(ScanWindow::kReach >= D_MAX_BLOCKS_IN_MCU * DCTSIZE2 * 4 + 2 * sizeof(std::uint64_t));
    at.byte = window.ready(at.byte);
    BitReader bits(at);
    for (std::size_t i = 0; i < block_count; ++i) {
        const Block& block = blocks[i];
        JCOEF* const coefficients = kStore ? *mcu[i] : nullptr;
        bits.refill();
        const HuffmanSymbols dc = look(*block.dc, bits);
        unsigned& prediction = predictions[block.component];
        prediction += static_cast<unsigned>(first_value(dc, bits));
        bits.drop(dc.length());
        if constexpr (kStore) {
            coefficients[0] = static_cast<JCOEF>(prediction);
        }
        unsigned k = 1;
        while (!step<kStore>(*block.ac, bits, coefficients, k)) {
            bits.refill();
            if (step<kStore>(*block.ac, bits, coefficients, k)) {
                break;
            }
        }
    }
    at = bits.position();
    insufficient_data = at.byte > window.end() || (at.byte == window.end() && at.bit > 0) ? TRUE : FALSE;
}

const HuffmanTable* EntropyDecoder::State::table(const JHUFF_TBL& from, HuffmanTable::Kind kind) {
    HuffmanTable::Definition definition;
    std::ranges::copy(from.bits, definition.counts.begin());
    std::ranges::copy(from.huffval, definition.symbols.begin());
    auto found = std::ranges::find_if(tables, [&](const Kept& each) { return each.table.is(definition, kind); });
    if (found == tables.end()) {
        found = std::ranges::min_element(tables, {}, &Kept::used);
        found->table.build(definition, kind);
    }
    found->used = ++uses;
    return &found->table;
}

const bool EntropyDecoder::kCompiledIn = true;

EntropyDecoder::EntropyDecoder() : state_(std::make_unique<State>()) {}

EntropyDecoder::~EntropyDecoder() = default;

bool EntropyDecoder::take_over(jpeg_decompress_struct& codec) noexcept {
    State& state = *state_;
    if (codec.progressive_mode != FALSE || codec.arith_code != FALSE || codec.master->lossless != FALSE ||
        codec.data_precision != 8 || codec.comps_in_scan != codec.num_components || codec.restart_interval != 0 ||
        !state.window.begin({codec.src->next_input_byte, codec.src->bytes_in_buffer})) {
        return false;
    }
    std::array<State::Block, MAX_COMPS_IN_SCAN> components{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(codec.comps_in_scan); ++i) {
        const jpeg_component_info& info = *codec.cur_comp_info[i];
        components[i] = {state.table(*codec.dc_huff_tbl_ptrs[info.dc_tbl_no], HuffmanTable::Kind::kDc),
                         state.table(*codec.ac_huff_tbl_ptrs[info.ac_tbl_no], HuffmanTable::Kind::kAc), i};
    }
    state.block_count = static_cast<std::size_t>(codec.blocks_in_MCU);
    for (std::size_t i = 0; i < state.block_count; ++i) {
        state.blocks[i] = components[static_cast<std::size_t>(codec.MCU_membership[i])];
    }
    state.predictions.fill(0);
    state.at = {state.window.start(), 0};
    static_cast<jpeg_entropy_decoder&>(state) = *codec.entropy;
    state.decode_mcu = &State::decode_next;
    codec.entropy = &state;
    // libjpeg reads the marker after the scan next.
    codec.src->next_input_byte = state.window.behind().data();
    codec.src->bytes_in_buffer = state.window.behind().size();
    return true;
}

bool EntropyDecoder::data_ran_out() const noexcept {
    return state_->insufficient_data != FALSE;
}

}  // namespace spdl

#else

// The private structures of the system's libjpeg-turbo may differ.
namespace spdl {

const bool EntropyDecoder::kCompiledIn = false;

struct EntropyDecoder::State {};

EntropyDecoder::EntropyDecoder() = default;

EntropyDecoder::~EntropyDecoder() = default;

bool EntropyDecoder::take_over(jpeg_decompress_struct& /*codec*/) noexcept {
    return false;
}

bool EntropyDecoder::data_ran_out() const noexcept {
    return false;
}

}  // namespace spdl

#endif
