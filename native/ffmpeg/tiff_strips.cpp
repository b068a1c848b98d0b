#include "ffmpeg/tiff_strips.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/decompressor.h"
#include "core/limits.h"
#include "core/media_error.h"
#include "core/tiff_directory.h"
#include "image/geometry.h"

namespace spdl {
namespace {

// TIFF 6.0 (Adobe, 1992) and its supplements.
enum Tag : std::uint16_t {
    kWidth = 256,
    kHeight = 257,
    kBitsPerSample = 258,
    kCompression = 259,
    kPhotometric = 262,
    kFillOrder = 266,
    kStripOffsets = 273,
    kSamplesPerPixel = 277,
    kRowsPerStrip = 278,
    kStripSizes = 279,
    kPlanarConfiguration = 284,
    kTileWidth = 322,
    kSubsampling = 530,
    kDngVersion = 50706,
};

enum Compression : std::uint32_t {
    kOldJpeg = 6,
    kJpeg = 7,
    kAdobeDeflate = 8,
    kDeflate = 32946,
    kLzma = 34925,
};

constexpr std::uint32_t kPlanar = 2;
constexpr std::uint32_t kYcbcr = 6;

constexpr const char* kCannot = "cannot decode the image as tiff: ";

constexpr std::size_t divide_up(std::size_t value, std::size_t by) {
    return (value + by - 1) / by;
}

struct Strips {
    std::size_t rows;           // Of each but the last.
    std::size_t row_bytes;      // Of what is stored for so many rows at once:
    std::size_t rows_together;  // one, or those that share chroma samples.
    std::size_t planes;

    [[nodiscard]] std::size_t bytes(std::size_t of_rows) const { return divide_up(of_rows, rows_together) * row_bytes; }
};

Strips strips_of(Bytes tiff, Size size) {
    const auto width = static_cast<std::size_t>(size.width);
    const auto height = static_cast<std::size_t>(size.height);
    const std::vector<std::uint32_t> bits = tiff_values(tiff, kBitsPerSample);
    const std::size_t samples = tiff_entry(tiff, kSamplesPerPixel).value_or(1);
    const std::size_t pixel_bits = bits.empty()       ? samples
                                   : bits.size() == 1 ? bits.front() * samples
                                                      : std::reduce(bits.begin(), bits.end(), std::size_t{0});
    constexpr std::size_t kMostSamples = 8;
    if (samples == 0 || samples > kMostSamples || pixel_bits > 64 * kMostSamples) {
        throw MediaError(std::string(kCannot) + "it is said to have " + std::to_string(samples) + " samples of " +
                         std::to_string(pixel_bits) + " bits in all for each pixel");
    }
    const std::uint32_t rows = tiff_entry(tiff, kRowsPerStrip).value_or(0);
    Strips strips{rows == 0 ? height : std::min<std::size_t>(rows, height), divide_up(width * pixel_bits, 8), 1, 1};
    if (tiff_entry(tiff, kPlanarConfiguration).value_or(1) == kPlanar) {
        strips.planes = samples;
        strips.row_bytes /= samples;
    } else if (tiff_entry(tiff, kPhotometric).value_or(0) == kYcbcr && samples == 3) {
        std::vector<std::uint32_t> shared = tiff_values(tiff, kSubsampling);
        if (shared.size() != 2 || shared[0] == 0 || shared[1] == 0 || shared[0] > 4 || shared[1] > 4) {
            shared = {2, 2};
        }
        strips.row_bytes = divide_up(width, shared[0]) * (std::size_t{shared[0]} * shared[1] + 2);
        strips.rows_together = shared[1];
    }
    return strips;
}

bool stores_lowest_bit_first(Bytes tiff) {
    return tiff_entry(tiff, kFillOrder).value_or(1) == 2;
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

// FFmpeg takes strips that end early for whole ones.
void check_deflated(Bytes tiff, std::int64_t max_pixels) {
    const auto side = [&](Tag tag) {
        return static_cast<int>(std::min<std::uint32_t>(tiff_entry(tiff, tag).value_or(0), 0x7fffffff));
    };
    const Size size{side(kWidth), side(kHeight)};
    check_source_size(size, "cannot decode the image: its size", max_pixels);
    const Strips strips = strips_of(tiff, size);
    const auto height = static_cast<std::size_t>(size.height);
    const std::size_t of_plane = divide_up(height, strips.rows);
    const std::vector<std::uint32_t> offsets = tiff_values(tiff, kStripOffsets);
    const std::vector<std::uint32_t> sizes = tiff_values(tiff, kStripSizes);
    const std::size_t count = of_plane * strips.planes;
    if (offsets.size() < count || sizes.size() < count) {
        throw MediaError(std::string(kCannot) + "its directory has " +
                         std::to_string(std::min(offsets.size(), sizes.size())) + " of the " + std::to_string(count) +
                         " strips that its " + std::to_string(height) + " rows are said to be in");
    }
    const bool turned = stores_lowest_bit_first(tiff);
    const AlignedBuffer result(strips.bytes(strips.rows));
    AlignedBuffer turned_bytes;
    for (std::size_t strip = 0; strip < count; ++strip) {
        if (offsets[strip] > tiff.size() || sizes[strip] > tiff.size() - offsets[strip]) {
            continue;  // FFmpeg says so.
        }
        Bytes compressed = tiff.subspan(offsets[strip], sizes[strip]);
        if (turned) {
            turn_bits(compressed, turned_bytes);
            compressed = {turned_bytes.data(), compressed.size()};
        }
        const std::size_t wanted = strips.bytes(std::min(strips.rows, height - strip % of_plane * strips.rows));
        std::size_t made = 0;
        const libdeflate_result code = libdeflate_zlib_decompress(decompressor(), compressed.data(), compressed.size(),
                                                                  result.data(), wanted, &made);
        // Some writers fill the last strip up.
        if (code != LIBDEFLATE_INSUFFICIENT_SPACE && (code != LIBDEFLATE_SUCCESS || made != wanted)) {
            throw MediaError(std::string(kCannot) + "strip " + std::to_string(strip + 1) + " of " +
                             std::to_string(count) +
                             (code == LIBDEFLATE_SUCCESS ? " inflates to " + std::to_string(made) + " bytes instead of "
                                                         : " is damaged, or ends before it inflates to the ") +
                             std::to_string(wanted) + (code == LIBDEFLATE_SUCCESS ? "" : " bytes of its rows"));
        }
    }
}

}  // namespace

void check_tiff(Bytes tiff, std::int64_t max_pixels) {
    const std::uint32_t compression = tiff_entry(tiff, kCompression).value_or(0);
    // Of raw photos FFmpeg reads tiles and JPEG.
    const bool raw_photo = has_tiff_entry(tiff, kDngVersion);
    const bool tiles = has_tiff_entry(tiff, kTileWidth);
    const std::uint32_t bits = tiff_entry(tiff, kBitsPerSample).value_or(0);
    const char* unread = nullptr;
    if ((compression == kOldJpeg || compression == kJpeg) && !raw_photo) {
        unread = "compressed as JPEG, which FFmpeg does not read";
    } else if (tiles && !raw_photo) {
        unread = "stored in tiles, which FFmpeg does not read";
    } else if (compression == kLzma) {
        unread = "compressed with LZMA, of which FFmpeg takes no notice where it ends early";
    } else if ((bits == 2 || bits == 4) && stores_lowest_bit_first(tiff)) {
        unread = "of 2 or 4 bits, the lowest of a byte first, which FFmpeg does not read";
    }
    if (unread != nullptr) {
        throw MediaError(std::string(kCannot) + "its pixels are " + unread +
                         ": store it as a TIFF of strips, without compression or with LZW or deflate, or as a PNG");
    }
    if (!tiles && (compression == kAdobeDeflate || compression == kDeflate)) {
        check_deflated(tiff, max_pixels);
    }
}

}  // namespace spdl
