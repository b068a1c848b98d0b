// Fuzzes the code that packs documents into rows and writes the rows. An input is a head of 8 bytes, which chooses the
// options, lengths of documents of 16 bits up to a 0xffff, and changes to the rows that follow from these.

#include "text/rows.h"

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "target.h"

namespace spdl::fuzz {
namespace {

constexpr std::size_t kHead = 8;
constexpr std::size_t kChange = 10;
constexpr std::int64_t kMost = 1 << 20;

using Numbers = std::vector<std::int64_t>;

std::int64_t read_number(std::span<const std::uint8_t> input, std::size_t at, std::size_t bytes) {
    std::uint64_t number = 0;
    std::memcpy(&number, input.data() + at, bytes);
    return static_cast<std::int64_t>(number);
}

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

// Each token is in one row, and no row is too long.
void check(const Numbers& lengths, const Segments& rows, const PackingOptions& options) {
    Numbers left = lengths;
    for (std::int64_t& tokens : left) {
        tokens = options.split == Split::kNever && tokens > options.length ? 0 : tokens;
    }
    for (std::size_t row = 0; row + 1 < rows.offsets.size(); ++row) {
        std::int64_t used = 0;
        for (auto at = static_cast<std::size_t>(rows.offsets[row]);
             at < static_cast<std::size_t>(rows.offsets[row + 1]); ++at) {
            const std::int64_t tokens = rows.stops[at] - rows.starts[at];
            require(tokens > 0 && rows.starts[at] >= 0);
            used = (used + options.align - 1) / options.align * options.align + tokens;
            left[static_cast<std::size_t>(rows.documents[at])] -= tokens;
        }
        require(used > 0 && used <= options.length);
    }
    for (const std::int64_t tokens : left) {
        require(tokens == 0);
    }
}

// Selects all rows from the last to the first one; those that are damaged are refused.
void select_all(const Segments& rows) {
    Numbers numbers(rows.offsets.size() - 1);
    std::iota(numbers.rbegin(), numbers.rend(), 0);
    try {
        const Segments found = select({rows.documents, rows.starts, rows.stops, rows.offsets}, numbers);
        require(found.offsets.size() == rows.offsets.size());
    } catch (const std::invalid_argument&) {
    }
}

// Writes rows into memory of exactly their size. Returns whether they were accepted.
bool write(const Numbers& lengths, const Segments& rows, const RowFormat& format, TokenType type, bool masked) {
    const std::size_t size = static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
    constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 8, 8};
    const std::vector<std::uint8_t> tokens(size * kBytes[static_cast<std::size_t>(type)], 1);
    const std::vector<std::uint8_t> flags(size, 1);
    const std::vector<TokenArray> arrays{{tokens.data(), size, type}};
    const std::vector<TokenArray> masks(masked ? 1 : 0, {flags.data(), size, TokenType::kUint8});
    const std::size_t count = rows.documents.size();
    Numbers numbers(count), firsts(count), whole(count);
    Numbers begins(lengths.size() + 1);
    std::partial_sum(lengths.begin(), lengths.end(), begins.begin() + 1);
    for (std::size_t at = 0; at < count; ++at) {
        const std::int64_t document = rows.documents[at];
        // A number that is no document stands for another array.
        const bool known = document >= 0 && static_cast<std::size_t>(document) < lengths.size();
        numbers[at] = known ? 0 : document;
        firsts[at] = (known ? begins[static_cast<std::size_t>(document)] : 0) + rows.starts[at] / 2 * 2;
        whole[at] = known ? lengths[static_cast<std::size_t>(document)] : rows.stops[at];
    }
    const std::size_t batch = (rows.offsets.size() - 1) * static_cast<std::size_t>(format.length);
    std::vector<std::int32_t> out(batch), positions(batch), segments(batch);
    std::vector<std::int32_t> labels(format.labels == Labels::kNone ? 0 : batch);
    try {
        const RowBounds bounds = write_rows({rows.documents,
                                             rows.starts,
                                             rows.stops,
                                             whole,
                                             rows.offsets,
                                             {arrays, numbers, firsts},
                                             {masks, numbers, firsts}},
                                            format, {out, positions, segments, labels});
        require(bounds.cumulative.front() == 0 && bounds.cumulative.back() == static_cast<std::int32_t>(batch));
        return true;
    } catch (const std::invalid_argument&) {
        return false;
    }
}

}  // namespace

bool run(std::span<const std::uint8_t> input) {
    if (input.size() < kHead) {
        return false;
    }
    PackingOptions options;
    options.algorithm = static_cast<PackingAlgorithm>(input[0] % 4);
    options.split = static_cast<Split>(input[1] % 3);
    options.length = read_number(input, 2, 2);
    options.align = input[4];
    Numbers lengths;
    std::size_t at = kHead;
    for (; at + 2 <= input.size() && read_number(input, at, 2) != 0xffff; at += 2) {
        lengths.push_back(read_number(input, at, 2));
    }
    at += 2;
    Segments rows;
    try {
        rows = pack(lengths, options);
    } catch (const std::invalid_argument&) {
        return false;
    }
    check(lengths, rows, options);
    select_all(rows);
    if (static_cast<std::int64_t>(rows.offsets.size()) * options.length > kMost) {
        return true;
    }
    const RowFormat format{options.length, options.align, std::int64_t{1} << 31, 0, static_cast<Labels>(input[5] % 3)};
    const auto type = static_cast<TokenType>(input[6] % 8);
    write(lengths, rows, format, type, input[7] % 2 == 1);
    for (; at + kChange <= input.size(); at += kChange) {
        Numbers* const columns[] = {&rows.documents, &rows.starts, &rows.stops, &rows.offsets};
        if (Numbers& column = *columns[input[at] % 4]; !column.empty()) {
            column[input[at + 1] % column.size()] = read_number(input, at + 2, 8);
        }
        write(lengths, rows, format, type, input[7] % 2 == 1);
        select_all(rows);
    }
    return true;
}

void mend(Input& /*input*/) {}

}  // namespace spdl::fuzz
