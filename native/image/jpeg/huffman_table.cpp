#include "image/jpeg/huffman_table.h"

#include <algorithm>

namespace spdl {

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

}  // namespace spdl
