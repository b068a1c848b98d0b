#pragma once

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

}  // namespace spdl
