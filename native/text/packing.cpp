#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "text/rows.h"

namespace spdl {
namespace {

// Sizes, free space and rows are counted in 32 bits, and space in units of the alignment.
using Count = std::uint32_t;
constexpr Count kNone = std::numeric_limits<Count>::max();

// The rows that pieces were assigned to.
struct Assigned {
    std::vector<Count> rows;
    Count count = 0;
};

// A set of numbers that finds its least member from a number on.
class Numbers {
  public:
    explicit Numbers(std::size_t most) : words_(most / 64 + 1), summary_(words_.size() / 64 + 1) {}

    void add(std::size_t number) {
        words_[number / 64] |= bit(number);
        summary_[number / 4096] |= bit(number / 64);
    }

    void remove(std::size_t number) {
        words_[number / 64] &= ~bit(number);
        if (words_[number / 64] == 0) {
            summary_[number / 4096] &= ~bit(number / 64);
        }
    }

    // Returns kNone if no member is as large.
    [[nodiscard]] Count first_from(std::size_t number) const {
        if (const std::size_t word = number / 64; const std::uint64_t found = words_[word] & from(number)) {
            return at(word, found);
        }
        const std::size_t next = number / 64 + 1;
        std::size_t group = next / 64;
        if (group >= summary_.size()) {
            return kNone;
        }
        std::uint64_t words = summary_[group] & from(next);
        while (words == 0) {
            if (++group == summary_.size()) {
                return kNone;
            }
            words = summary_[group];
        }
        const std::size_t word = at(group, words);
        return at(word, words_[word]);
    }

  private:
    static std::uint64_t bit(std::size_t number) { return std::uint64_t{1} << number % 64; }
    static std::uint64_t from(std::size_t number) { return ~std::uint64_t{0} << number % 64; }
    static Count at(std::size_t word, std::uint64_t bits) {
        return static_cast<Count>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
    }

    std::vector<std::uint64_t> words_;
    std::vector<std::uint64_t> summary_;
};

// Returns the numbers of the pieces by decreasing size; equal ones keep their order.
std::vector<Count> by_decreasing_size(std::span<const Count> sizes, Count capacity) {
    std::vector<Count> begins(std::size_t{capacity} + 2);
    for (const Count size : sizes) {
        ++begins[size];
    }
    Count larger = 0;
    for (std::size_t size = std::size_t{capacity} + 1; size-- > 0;) {
        larger += std::exchange(begins[size], larger);
    }
    std::vector<Count> order(sizes.size());
    for (std::size_t piece = 0; piece < sizes.size(); ++piece) {
        order[begins[sizes[piece]]++] = static_cast<Count>(piece);
    }
    return order;
}

// The larger pieces first, each into a row in which it leaves the least space.
Assigned best_fit(std::span<const Count> sizes, Count capacity) {
    Assigned result{std::vector<Count>(sizes.size()), 0};
    // The rows with each free space are a stack: its top, and for each row the one below it.
    std::vector<Count> tops(std::size_t{capacity} + 1, kNone);
    std::vector<Count> below;
    Numbers spaces(capacity);
    for (const Count piece : by_decreasing_size(sizes, capacity)) {
        const Count size = sizes[piece];
        Count space = spaces.first_from(size);
        Count row = 0;
        if (space == kNone) {
            row = result.count++;
            below.push_back(kNone);
            space = capacity;
        } else {
            row = tops[space];
            tops[space] = below[row];
            if (tops[space] == kNone) {
                spaces.remove(space);
            }
        }
        result.rows[piece] = row;
        if (const Count left = space - size; left != 0) {
            below[row] = std::exchange(tops[left], row);
            spaces.add(left);
        }
    }
    return result;
}

// The pieces in their order, each into the first row that has the space.
Assigned first_fit(std::span<const Count> sizes, Count capacity) {
    Assigned result{std::vector<Count>(sizes.size()), 0};
    // A tree of the largest free space, with a leaf for each row that there could be.
    const std::size_t leaves = std::bit_ceil(std::max<std::size_t>(sizes.size(), 1));
    std::vector<Count> largest(2 * leaves, capacity);
    for (std::size_t piece = 0; piece < sizes.size(); ++piece) {
        std::size_t node = 1;
        while (node < leaves) {
            node *= 2;
            node += static_cast<std::size_t>(largest[node] < sizes[piece]);
        }
        largest[node] -= sizes[piece];
        const auto row = static_cast<Count>(node - leaves);
        result.rows[piece] = row;
        result.count = std::max(result.count, row + 1);
        while (node > 1) {
            node /= 2;
            const Count space = std::max(largest[2 * node], largest[2 * node + 1]);
            if (std::exchange(largest[node], space) == space) {
                break;
            }
        }
    }
    return result;
}

void add(Segments& segments, std::size_t document, std::int64_t start, std::int64_t stop) {
    segments.documents.push_back(static_cast<std::int64_t>(document));
    segments.starts.push_back(start);
    segments.stops.push_back(stop);
}

bool is_left_out(std::int64_t tokens, const PackingOptions& options) {
    return tokens == 0 || (options.split == Split::kNever && tokens > options.length);
}

// One document after the other. A row ends where the next document must not be cut.
Segments concat(std::span<const std::int64_t> lengths, const PackingOptions& options) {
    Segments result;
    std::int64_t used = options.length;
    for (std::size_t document = 0; document < lengths.size(); ++document) {
        const std::int64_t tokens = lengths[document];
        for (std::int64_t start = 0; start < tokens && !is_left_out(tokens, options);) {
            const std::int64_t begin = (used + options.align - 1) / options.align * options.align;
            const std::int64_t room = options.length - begin;
            const bool may_cut = options.split == Split::kAlways || begin == 0;
            if (room == 0 || (tokens - start > room && !may_cut)) {
                result.offsets.push_back(static_cast<std::int64_t>(result.documents.size()));
                used = 0;
                continue;
            }
            const std::int64_t stop = start + std::min(tokens - start, room);
            add(result, document, start, stop);
            used = begin + stop - start;
            start = stop;
        }
    }
    result.offsets.push_back(static_cast<std::int64_t>(result.documents.size()));
    return result;
}

// Cuts long documents into pieces of a row, and what is left of them.
Segments cut(std::span<const std::int64_t> lengths, const PackingOptions& options) {
    Segments pieces;
    pieces.documents.reserve(lengths.size());
    pieces.starts.reserve(lengths.size());
    pieces.stops.reserve(lengths.size());
    for (std::size_t document = 0; document < lengths.size(); ++document) {
        const std::int64_t tokens = lengths[document];
        for (std::int64_t start = 0; start < tokens && !is_left_out(tokens, options);) {
            const std::int64_t stop = start + std::min(tokens - start, options.length);
            add(pieces, document, start, stop);
            start = stop;
        }
    }
    return pieces;
}

// Puts the pieces row by row, the rows in the order of their first pieces.
Segments arrange(const Segments& pieces, const Assigned& assigned) {
    std::vector<Count> numbers(assigned.count, kNone);
    Count rows = 0;
    Segments result;
    result.offsets.assign(std::size_t{assigned.count} + 1, 0);
    for (const Count row : assigned.rows) {
        if (numbers[row] == kNone) {
            numbers[row] = rows++;
        }
        ++result.offsets[std::size_t{numbers[row]} + 1];
    }
    for (std::size_t row = 0; row < rows; ++row) {
        result.offsets[row + 1] += result.offsets[row];
    }
    std::vector<std::int64_t> places(result.offsets.begin(), result.offsets.end() - 1);
    const std::size_t size = assigned.rows.size();
    result.documents.resize(size);
    result.starts.resize(size);
    result.stops.resize(size);
    for (std::size_t piece = 0; piece < size; ++piece) {
        const auto place = static_cast<std::size_t>(places[numbers[assigned.rows[piece]]]++);
        result.documents[place] = pieces.documents[piece];
        result.starts[place] = pieces.starts[piece];
        result.stops[place] = pieces.stops[piece];
    }
    return result;
}

void check(std::span<const std::int64_t> lengths, const PackingOptions& options) {
    if (options.length < 1 || options.length > kMaxRowLength) {
        throw std::invalid_argument("a row must have 1 to " + std::to_string(kMaxRowLength) + " tokens");
    }
    if (options.align < 1 || options.length % options.align != 0) {
        throw std::invalid_argument("the length of a row must be a multiple of the alignment");
    }
    if (options.split == Split::kAlways && options.algorithm != PackingAlgorithm::kConcat) {
        throw std::invalid_argument("only concat divides all documents");
    }
    std::int64_t pieces = 0;
    for (const std::int64_t tokens : lengths) {
        if (tokens < 0) {
            throw std::invalid_argument("a document has a negative length");
        }
        // As many pieces as the algorithms can count.
        pieces += is_left_out(tokens, options) ? 0 : std::min<std::int64_t>(tokens / options.length + 1, kNone);
        if (pieces >= std::int64_t{kNone} - 1) {
            throw std::invalid_argument("that many pieces of documents cannot be packed at once");
        }
    }
}

}  // namespace

Segments pack(std::span<const std::int64_t> lengths, const PackingOptions& options) {
    check(lengths, options);
    if (options.algorithm == PackingAlgorithm::kConcat) {
        return concat(lengths, options);
    }
    Segments pieces = cut(lengths, options);
    if (options.algorithm == PackingAlgorithm::kAlone) {
        pieces.offsets.resize(pieces.documents.size() + 1);
        std::iota(pieces.offsets.begin(), pieces.offsets.end(), 0);
        return pieces;
    }
    std::vector<Count> sizes(pieces.documents.size());
    for (std::size_t piece = 0; piece < sizes.size(); ++piece) {
        sizes[piece] =
            static_cast<Count>((pieces.stops[piece] - pieces.starts[piece] + options.align - 1) / options.align);
    }
    const auto capacity = static_cast<Count>(options.length / options.align);
    return arrange(pieces, options.algorithm == PackingAlgorithm::kBestFit ? best_fit(sizes, capacity)
                                                                           : first_fit(sizes, capacity));
}

Segments select(const SegmentsView& segments, std::span<const std::int64_t> rows) {
    const std::size_t size = segments.documents.size();
    if (segments.offsets.empty() || segments.starts.size() != size || segments.stops.size() != size) {
        throw std::invalid_argument("the arrays of the segments have different lengths");
    }
    const std::size_t count = segments.offsets.size() - 1;
    Segments found;
    found.offsets.reserve(rows.size() + 1);
    found.offsets.push_back(0);
    for (const std::int64_t row : rows) {
        if (row < 0 || static_cast<std::size_t>(row) >= count) {
            throw std::invalid_argument("there is no row " + std::to_string(row) + " of " + std::to_string(count));
        }
        const std::int64_t first = segments.offsets[static_cast<std::size_t>(row)];
        const std::int64_t last = segments.offsets[static_cast<std::size_t>(row) + 1];
        if (first < 0 || last < first || static_cast<std::size_t>(last) > size) {
            throw std::invalid_argument("the offsets of the rows do not cover the segments");
        }
        for (auto at = static_cast<std::size_t>(first); at < static_cast<std::size_t>(last); ++at) {
            found.documents.push_back(segments.documents[at]);
            found.starts.push_back(segments.starts[at]);
            found.stops.push_back(segments.stops[at]);
        }
        found.offsets.push_back(static_cast<std::int64_t>(found.documents.size()));
    }
    return found;
}

}  // namespace spdl
