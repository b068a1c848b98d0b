#include "text/rows.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace spdl {
namespace {

// Calls `work` with a null pointer to the elements' type.
template <typename Work>
auto with_type(TokenType type, const Work& work) {
    switch (type) {
        case TokenType::kUint8:
            return work(static_cast<const std::uint8_t*>(nullptr));
        case TokenType::kInt8:
            return work(static_cast<const std::int8_t*>(nullptr));
        case TokenType::kUint16:
            return work(static_cast<const std::uint16_t*>(nullptr));
        case TokenType::kInt16:
            return work(static_cast<const std::int16_t*>(nullptr));
        case TokenType::kUint32:
            return work(static_cast<const std::uint32_t*>(nullptr));
        case TokenType::kInt32:
            return work(static_cast<const std::int32_t*>(nullptr));
        case TokenType::kUint64:
            return work(static_cast<const std::uint64_t*>(nullptr));
        default:
            return work(static_cast<const std::int64_t*>(nullptr));
    }
}

[[noreturn]] void refuse_number(const std::string& number, std::int64_t document, std::int64_t position,
                                std::int64_t vocab_size) {
    throw std::invalid_argument("document " + std::to_string(document) + " has the token " + number + " at position " +
                                std::to_string(position) + ", and the vocabulary has the numbers 0 to " +
                                std::to_string(vocab_size - 1));
}

// Copies tokens from any type. `document` and `position` are for the error.
void copy_tokens(const TokenArray& array, std::int64_t first, std::span<std::int32_t> target, std::int64_t vocab_size,
                 std::int64_t document, std::int64_t position) {
    with_type(array.type, [&](auto null) {
        using Token = std::remove_const_t<std::remove_pointer_t<decltype(null)>>;
        // A negative number becomes one that no vocabulary has.
        using Bits = std::conditional_t<sizeof(Token) <= 4, std::uint32_t, std::uint64_t>;
        const auto* const source = static_cast<const Token*>(array.data) + first;
        std::int32_t* const out = target.data();
        // All numbers of the type are in most vocabularies of 65,536 and more; it takes half of the time then.
        if (std::is_unsigned_v<Token> &&
            static_cast<std::uint64_t>(std::numeric_limits<Token>::max()) < static_cast<std::uint64_t>(vocab_size)) {
            std::copy_n(source, target.size(), out);
            return;
        }
        Bits largest = 0;
        for (std::size_t at = 0; at < target.size(); ++at) {
            const auto bits = static_cast<Bits>(source[at]);
            largest = std::max(largest, bits);
            out[at] = static_cast<std::int32_t>(bits);
        }
        if (std::uint64_t{largest} < static_cast<std::uint64_t>(vocab_size)) {
            return;
        }
        for (std::size_t at = 0; at < target.size(); ++at) {
            if (const auto bits = static_cast<Bits>(source[at]); bits >= static_cast<std::uint64_t>(vocab_size)) {
                refuse_number(std::to_string(source[at]), document, position + static_cast<std::int64_t>(at),
                              vocab_size);
            }
        }
    });
}

// Ignores the labels whose flag is 0.
void ignore_unset(const TokenArray& array, std::int64_t first, std::span<std::int32_t> labels) {
    with_type(array.type, [&](auto null) {
        const auto* const flags = static_cast<decltype(null)>(array.data) + first;
        for (std::size_t at = 0; at < labels.size(); ++at) {
            labels[at] = flags[at] == 0 ? kIgnored : labels[at];
        }
    });
}

void check_place(const Places& places, std::size_t segment, std::int64_t count, const char* what) {
    const std::int64_t number = places.numbers[segment];
    const std::int64_t first = places.firsts[segment];
    if (number < 0 || static_cast<std::size_t>(number) >= places.arrays.size() || first < 0) {
        throw std::invalid_argument(std::string("a segment's ") + what + " are in no array");
    }
    const auto size = static_cast<std::int64_t>(places.arrays[static_cast<std::size_t>(number)].size);
    if (first > size || count > size - first) {
        throw std::invalid_argument(std::string("a segment's ") + what + " end after their array");
    }
}

class Writer {
  public:
    Writer(const RowSegments& rows, const RowFormat& format, const RowArrays& arrays)
        : rows_(rows), format_(format), arrays_(arrays) {}

    RowBounds write() {
        check();
        const std::size_t count = rows_.offsets.size() - 1;
        bounds_.cumulative.reserve(rows_.documents.size() + count + 1);
        bounds_.cumulative.push_back(0);
        bounds_.rows.reserve(count + 1);
        bounds_.rows.push_back(0);
        for (std::size_t row = 0; row < count; ++row) {
            write_row(row);
            bounds_.rows.push_back(static_cast<std::int32_t>(bounds_.cumulative.size() - 1));
        }
        return std::move(bounds_);
    }

  private:
    void check() const {
        const std::size_t segments = rows_.documents.size();
        const auto same = [segments](const Places& places) {
            return places.numbers.size() == segments && places.firsts.size() == segments;
        };
        if (format_.length < 1 || format_.align < 1 || format_.length % format_.align != 0 || format_.vocab_size < 1 ||
            format_.vocab_size > std::int64_t{1} << 31) {
            throw std::invalid_argument("a row, its alignment or the vocabulary has an impossible size");
        }
        if (rows_.offsets.empty() || rows_.starts.size() != segments || rows_.stops.size() != segments ||
            rows_.lengths.size() != segments || !same(rows_.tokens) ||
            (!rows_.masks.arrays.empty() && !same(rows_.masks))) {
            throw std::invalid_argument("the arrays of the segments have different lengths");
        }
        if (rows_.offsets.front() != 0 || rows_.offsets.back() != static_cast<std::int64_t>(segments) ||
            !std::is_sorted(rows_.offsets.begin(), rows_.offsets.end())) {
            throw std::invalid_argument("the offsets of the rows do not cover the segments");
        }
        const std::size_t rows = rows_.offsets.size() - 1;
        const auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
        const auto length = static_cast<std::size_t>(format_.length);
        if (length > most || rows > most / length) {
            throw std::invalid_argument("the batch has more than 2^31 - 1 tokens, which its bounds cannot count");
        }
        const std::size_t size = rows * length;
        if (arrays_.tokens.size() != size || arrays_.positions.size() != size || arrays_.segments.size() != size ||
            arrays_.labels.size() != (format_.labels == Labels::kNone ? 0 : size)) {
            throw std::invalid_argument("the arrays of the batch have another size");
        }
    }

    void write_row(std::size_t row) {
        const std::size_t begin = row * static_cast<std::size_t>(format_.length);
        std::int64_t used = 0;
        std::int32_t number = 0;
        for (auto at = rows_.offsets[row]; at < rows_.offsets[row + 1]; ++at) {
            const auto segment = static_cast<std::size_t>(at);
            const std::int64_t start = rows_.starts[segment];
            const std::int64_t stop = rows_.stops[segment];
            if (start < 0 || stop <= start || stop > rows_.lengths[segment]) {
                throw std::invalid_argument("a segment is not in its document");
            }
            const std::int64_t count = stop - start;
            if (count > format_.length - used) {
                throw std::invalid_argument("a row has no room for its segments");
            }
            const std::int64_t whole = (count + format_.align - 1) / format_.align * format_.align;
            write_segment(segment, begin + static_cast<std::size_t>(used), static_cast<std::size_t>(count));
            pad(begin + static_cast<std::size_t>(used + count), static_cast<std::size_t>(whole - count));
            end_sequence(begin + static_cast<std::size_t>(used), static_cast<std::size_t>(whole), ++number);
            used += whole;
        }
        if (used < format_.length) {
            pad(begin + static_cast<std::size_t>(used), static_cast<std::size_t>(format_.length - used));
            end_sequence(begin + static_cast<std::size_t>(used), static_cast<std::size_t>(format_.length - used), 0);
        }
    }

    void write_segment(std::size_t segment, std::size_t begin, std::size_t count) {
        const std::int64_t start = rows_.starts[segment];
        const std::int64_t document = rows_.documents[segment];
        const bool goes_on = format_.labels == Labels::kShifted && rows_.stops[segment] < rows_.lengths[segment];
        const std::int64_t read = static_cast<std::int64_t>(count) + std::int64_t{goes_on};
        check_place(rows_.tokens, segment, read, "tokens");
        const TokenArray& array = rows_.tokens.arrays[static_cast<std::size_t>(rows_.tokens.numbers[segment])];
        const std::int64_t first = rows_.tokens.firsts[segment];
        const auto tokens = arrays_.tokens.subspan(begin, count);
        copy_tokens(array, first, tokens, format_.vocab_size, document, start);
        if (format_.labels == Labels::kNone) {
            return;
        }
        const auto labels = arrays_.labels.subspan(begin, count);
        if (format_.labels == Labels::kShifted) {
            std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
            labels.back() = kIgnored;
            if (goes_on) {
                copy_tokens(array, first + read - 1, labels.last(1), format_.vocab_size, document,
                            rows_.stops[segment]);
            }
        } else {
            // A model that shifts by itself would predict the first token from the segment before.
            labels.front() = kIgnored;
            std::copy(tokens.begin() + 1, tokens.end(), labels.begin() + 1);
        }
        if (!rows_.masks.arrays.empty()) {
            mask(segment, labels, read);
        }
    }

    void mask(std::size_t segment, std::span<std::int32_t> labels, std::int64_t read) const {
        check_place(rows_.masks, segment, read, "masks");
        const TokenArray& flags = rows_.masks.arrays[static_cast<std::size_t>(rows_.masks.numbers[segment])];
        const std::int64_t shift = format_.labels == Labels::kShifted ? 1 : 0;
        ignore_unset(flags, rows_.masks.firsts[segment] + shift, labels.first(static_cast<std::size_t>(read - shift)));
    }

    void pad(std::size_t begin, std::size_t count) {
        const auto tokens = arrays_.tokens.subspan(begin, count);
        std::fill(tokens.begin(), tokens.end(), format_.pad);
        if (format_.labels != Labels::kNone) {
            const auto labels = arrays_.labels.subspan(begin, count);
            std::fill(labels.begin(), labels.end(), kIgnored);
        }
    }

    void end_sequence(std::size_t begin, std::size_t count, std::int32_t number) {
        const auto positions = arrays_.positions.subspan(begin, count);
        std::iota(positions.begin(), positions.end(), 0);
        const auto segments = arrays_.segments.subspan(begin, count);
        std::fill(segments.begin(), segments.end(), number);
        bounds_.cumulative.push_back(static_cast<std::int32_t>(begin + count));
        bounds_.longest = std::max(bounds_.longest, static_cast<std::int32_t>(count));
    }

    const RowSegments& rows_;
    const RowFormat& format_;
    const RowArrays& arrays_;
    RowBounds bounds_;
};

}  // namespace

RowBounds write_rows(const RowSegments& rows, const RowFormat& format, const RowArrays& arrays) {
    return Writer(rows, format, arrays).write();
}

}  // namespace spdl
