#include "image/huffman_table.h"

#include <algorithm>

namespace spdl {

HuffmanSymbol HuffmanTable::symbol(unsigned code_length, unsigned symbol) const {
    const unsigned value_bits = symbol & 15U;
    unsigned run = symbol >> 4U;
    if (kind_ == Kind::kDc) {
        run = 0;
    } else if (value_bits == 0 && run != 15) {
        run = HuffmanSymbol::kEndOfBlock;
    }
    return HuffmanSymbol::make(code_length + value_bits, value_bits, run);
}

void HuffmanTable::build(const Definition& definition, Kind kind) {
    definition_ = definition;
    kind_ = kind;
    short_.fill(0);
    unsigned code = 0;
    unsigned index = 0;
    for (unsigned length = 1; length <= 16; ++length) {
        offsets_[length] = static_cast<std::int32_t>(index) - static_cast<std::int32_t>(code);
        for (unsigned i = 0; i < definition.counts[length]; ++i) {
            if (length <= kBits) {
                const unsigned same = 1U << (kBits - length);
                std::fill_n(short_.begin() + code * same, same, symbol(length, definition.symbols[index]).packed);
            }
            ++code;
            ++index;
        }
        limits_[length] = definition.counts[length] == 0 ? 0 : code << (16U - length);
        code <<= 1U;
    }
    built_ = true;
}

HuffmanSymbol HuffmanTable::any_symbol(std::uint64_t next) const {
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
