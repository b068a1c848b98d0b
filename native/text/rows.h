#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spdl {

// With kAlone, each piece is a row.
enum class PackingAlgorithm : std::uint8_t { kBestFit, kFirstFit, kConcat, kAlone };

// Which documents may be divided among rows: none, those that are longer than a row, or all.
enum class Split : std::uint8_t { kNever, kLong, kAlways };

// The longest row. Best-fit takes some bytes for each token of a row.
inline constexpr std::int64_t kMaxRowLength = std::int64_t{1} << 24;

struct PackingOptions {
    PackingAlgorithm algorithm = PackingAlgorithm::kBestFit;
    Split split = Split::kLong;  // kAlways is for kConcat.
    std::int64_t length = 0;     // The tokens of a row.
    std::int64_t align = 1;      // Each segment begins at a multiple of this, which divides the length.
};

// The parts of documents that rows are made of. Row r has the segments from offsets[r] to before offsets[r + 1].
struct Segments {
    std::vector<std::int64_t> documents;
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> stops;
    std::vector<std::int64_t> offsets;
};

// Packs documents of these lengths into rows. The rows come in the order of their first documents, and so do the
// segments of a row. Empty documents are left out; with Split::kNever, so are those that are longer than a row. Throws
// std::invalid_argument for options or lengths that make no sense.
Segments pack(std::span<const std::int64_t> lengths, const PackingOptions& options);

// Segments in memory that others own.
struct SegmentsView {
    std::span<const std::int64_t> documents;
    std::span<const std::int64_t> starts;
    std::span<const std::int64_t> stops;
    std::span<const std::int64_t> offsets;
};

// Returns some of the rows. Throws std::invalid_argument if the offsets or the numbers of the rows make no sense.
Segments select(const SegmentsView& segments, std::span<const std::int64_t> rows);

enum class TokenType : std::uint8_t { kUint8, kInt8, kUint16, kInt16, kUint32, kInt32, kUint64, kInt64 };

// Numbers in memory that others own: tokens, or flags that are 0 or not.
struct TokenArray {
    const void* data = nullptr;
    std::size_t size = 0;
    TokenType type = TokenType::kUint16;
};

// The array that each segment lies in, and its first element there.
struct Places {
    std::span<const TokenArray> arrays;
    std::span<const std::int64_t> numbers;
    std::span<const std::int64_t> firsts;
};

// The rows to write: row r has the segments from offsets[r] to before offsets[r + 1].
struct RowSegments {
    std::span<const std::int64_t> documents;
    std::span<const std::int64_t> starts;  // Where each segment begins in its document.
    std::span<const std::int64_t> stops;
    std::span<const std::int64_t> lengths;  // The tokens of the whole documents.
    std::span<const std::int64_t> offsets;
    Places tokens;
    Places masks;  // Without arrays, all tokens are labels.
};

enum class Labels : std::uint8_t { kNone, kShifted, kUnshifted };

// The label of tokens that a loss leaves out.
inline constexpr std::int32_t kIgnored = -100;

struct RowFormat {
    std::int64_t length = 0;
    std::int64_t align = 1;
    std::int64_t vocab_size = 0;  // Above 0, and at most 2^31.
    std::int32_t pad = 0;
    Labels labels = Labels::kShifted;
};

// Arrays of rows x length numbers.
struct RowArrays {
    std::span<std::int32_t> tokens;
    std::span<std::int32_t> positions;
    std::span<std::int32_t> segments;
    std::span<std::int32_t> labels;  // Empty with Labels::kNone.
};

// The bounds of the sequences that attend to themselves only.
struct RowBounds {
    std::vector<std::int32_t> cumulative;  // In the rows put one after the other: from 0 to all their tokens.
    std::vector<std::int32_t> rows;        // The number of the first sequence of each row, and of all sequences.
    std::int32_t longest = 0;
};

// Writes the rows, and returns their bounds. Throws std::invalid_argument for a number that is not in the vocabulary,
// and for segments that are not in their arrays, or that a row has no room for.
RowBounds write_rows(const RowSegments& rows, const RowFormat& format, const RowArrays& arrays);

}  // namespace spdl
