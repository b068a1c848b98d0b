#include "ffmpeg/tiff_strips.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/bounded_read.h"
#include "core/decompressor.h"
#include "core/geometry.h"
#include "core/limits.h"

namespace spdl {
namespace {

constexpr std::size_t divide_up(std::size_t value, std::size_t by) {
    return (value + by - 1) / by;
}

struct Strips {
    std::size_t rows;           // Of each strip but the last.
    std::size_t row_bytes;      // Of what is stored for so many rows at once:
    std::size_t rows_together;  // one, or those that share chroma samples.
    std::size_t planes;

    [[nodiscard]] std::size_t bytes(std::size_t of_rows) const { return divide_up(of_rows, rows_together) * row_bytes; }
};

Strips strips_of(const TiffDescription& picture, Size size) {
    const auto width = static_cast<std::size_t>(size.width);
    const auto height = static_cast<std::size_t>(size.height);
    std::vector<std::uint32_t> bits = picture.integers(kBitsPerSample);
    if (bits.empty()) {
        bits = {1};
    }
    const std::size_t samples = picture.integer(kSamplesPerPixel, static_cast<std::uint32_t>(bits.size()));
    const std::size_t pixel_bits =
        bits.size() == 1 ? bits.front() * samples : std::reduce(bits.begin(), bits.end(), std::size_t{0});
    // FFmpeg has no format with more.
    constexpr std::size_t kMostSamples = 5;
    constexpr std::size_t kMostBits = 128;
    if (samples == 0 || samples > kMostSamples || pixel_bits == 0 || pixel_bits > kMostBits) {
        fail_tiff("its pixels are said to have " + std::to_string(samples) + " samples of " +
                  std::to_string(pixel_bits) + " bits in all");
    }
    const std::uint32_t rows = picture.kept(kRowsPerStrip, 0);
    Strips strips{rows == 0 ? height : std::min<std::size_t>(rows, height), divide_up(width * pixel_bits, 8), 1, 1};
    if (is_planar(picture)) {
        strips.planes = samples;
        strips.row_bytes /= samples;
    } else if (picture.integer(kPhotometric, 0) == kYcbcr && samples == 3) {
        // If a file does not say, the specification means two by two, and FFmpeg none.
        std::vector<std::uint32_t> shared = picture.kept(kSubsampling);
        if (shared.empty()) {
            shared = {1, 1};
        }
        constexpr std::uint32_t kMostShared = 4;
        if (shared.size() != 2 || std::ranges::any_of(shared, [](auto by) { return by == 0 || by > kMostShared; })) {
            fail_tiff("its chroma is subsampled in a way that is not known");
        }
        strips.row_bytes = divide_up(width, shared[0]) * (std::size_t{shared[0]} * shared[1] + 2);
        strips.rows_together = shared[1];
    }
    return strips;
}

void turn_bits(Bytes bytes, AlignedBuffer& into) {
    static constexpr auto kTurned = [] {
        std::array<std::uint8_t, 256> table{};
        for (unsigned value = 0; value < table.size(); ++value) {
            for (unsigned bit = 0; bit < 8; ++bit) {
                table[value] = static_cast<std::uint8_t>(table[value] | ((value >> bit & 1U) << (7 - bit)));
            }
        }
        return table;
    }();
    into.reserve(bytes.size());
    std::ranges::transform(bytes, into.data(), [](std::uint8_t byte) { return kTurned[byte]; });
}

// Inflates zlib streams to find out how long they are.
class Inflater {
  public:
    // Returns whether there are `wanted` bytes; nothing if this is no such stream, or a damaged one.
    std::optional<bool> holds(Bytes stream, std::size_t wanted) {
        constexpr std::size_t kHeader = 2;
        constexpr std::size_t kChecksum = 4;
        if (stream.size() <= kHeader) {
            return false;
        }
        const Bytes deflated = stream.subspan(kHeader);
        if (wanted / kMaxRatio > deflated.size()) {
            return false;
        }
        // libdeflate reports that there is no room left as soon as it has read how much comes: a stored block, or
        // matches, for which it takes up to eight missing bytes for zeros.
        constexpr std::size_t kToCome = 65535 + 32 * 258;
        result_.reserve(wanted + kToCome);
        std::size_t used = 0;
        std::size_t made = 0;
        switch (libdeflate_deflate_decompress_ex(decompressor(), deflated.data(), deflated.size(), result_.data(),
                                                 wanted + kToCome, &used, &made)) {
            case LIBDEFLATE_SUCCESS:
                // zlib accepts a file that ends before its checksum does.
                if (deflated.size() - used >= kChecksum &&
                    libdeflate_adler32(1, result_.data(), made) != read_integer(deflated, used, kChecksum, false)) {
                    return std::nullopt;
                }
                return made >= wanted;
            case LIBDEFLATE_INSUFFICIENT_SPACE:  // Some writers fill up the last strip.
                return true;
            default:
                return std::nullopt;
        }
    }

  private:
    // The most that deflate makes of a byte: a match of 258 bytes takes at least two bits.
    static constexpr std::size_t kMaxRatio = 1032;

    AlignedBuffer result_;
};

}  // namespace

bool is_deflated(const TiffDescription& picture) {
    return is_deflate(picture.integer(kCompression, kNone));
}

void check_strips(Bytes tiff, const TiffDescription& picture, std::int64_t max_pixels) {
    const auto side = [&](TiffTag tag) {
        return static_cast<int>(std::min<std::uint32_t>(picture.integer(tag, 0), 0x7fffffff));
    };
    const Size size{side(kWidth), side(kHeight)};
    check_source_size(size, "cannot decode the image: its size", max_pixels);
    const Strips strips = strips_of(picture, size);
    const auto height = static_cast<std::size_t>(size.height);
    const std::size_t of_plane = divide_up(height, strips.rows);
    const std::size_t count = of_plane * strips.planes;
    const std::vector<std::uint32_t> offsets = picture.integers(kStripOffsets);
    std::vector<std::uint32_t> sizes = picture.integers(kStripSizes);
    if (count == 1 && offsets.size() == 1 && (sizes.empty() || sizes.front() == 0)) {
        sizes = {static_cast<std::uint32_t>(tiff.size() - std::min<std::size_t>(offsets.front(), tiff.size()))};
    }
    if (offsets.size() < count || sizes.size() < count) {
        fail_tiff("its directory has " + std::to_string(std::min(offsets.size(), sizes.size())) + " of the " +
                  std::to_string(count) + " strips that its " + std::to_string(height) + " rows are said to be in");
    }
    const bool deflated = is_deflated(picture);
    const bool turned = picture.integer(kFillOrder, 1) == 2;
    Inflater inflater;
    AlignedBuffer turned_bytes;
    std::size_t total = 0;
    for (std::size_t strip = 0; strip < count; ++strip) {
        const std::string name = "strip " + std::to_string(strip + 1) + " of " + std::to_string(count);
        if (strip % of_plane == 0) {
            total = 0;
        }
        total += sizes[strip];
        if (offsets[strip] > tiff.size() || sizes[strip] > tiff.size() - offsets[strip] || total > tiff.size()) {
            fail_tiff(name + " is said to have " + std::to_string(sizes[strip]) + " bytes from byte " +
                      std::to_string(offsets[strip]) + " on, of a file of " + std::to_string(tiff.size()));
        }
        if (!deflated) {
            continue;
        }
        Bytes stream = tiff.subspan(offsets[strip], sizes[strip]);
        if (turned) {
            turn_bits(stream, turned_bytes);
            stream = {turned_bytes.data(), stream.size()};
        }
        const std::size_t wanted = strips.bytes(std::min(strips.rows, height - strip % of_plane * strips.rows));
        const std::optional<bool> whole = inflater.holds(stream, wanted);
        if (!whole) {
            fail_tiff(name + " is damaged, or ends before it has inflated");
        }
        if (!*whole) {
            fail_tiff(name + " inflates to less than the " + std::to_string(wanted) + " bytes of its rows");
        }
    }
}

}  // namespace spdl
