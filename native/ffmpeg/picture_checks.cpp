#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/decompressor.h"
#include "core/errors.h"
#include "core/file_parts.h"
#include "core/image_items.h"
#include "ffmpeg/decode.h"

namespace spdl {
namespace {

// The most that deflate makes of a byte: a match of 258 bytes takes at least two bits.
constexpr std::size_t kMaxRatio = 1032;

std::size_t big_endian(Bytes bytes, std::size_t at) {
    std::size_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
        value = value << 8U | bytes[i];
    }
    return value;
}

std::string megabytes(std::size_t size) {
    return std::to_string(size >> 20U) + " MB";
}

// Returns how much a zlib stream inflates to, at most `limit`; `limit` itself if that cannot be told.
std::size_t inflated_size(Bytes compressed, std::size_t limit) {
    const AlignedBuffer result(limit);
    std::size_t made = 0;
    const libdeflate_result code = libdeflate_zlib_decompress(decompressor(), compressed.data(), compressed.size(),
                                                              result.data(), result.size(), &made);
    return code == LIBDEFLATE_SUCCESS ? made : limit;
}

// The compressed part of a chunk follows a name, a null character and the number of the method.
Bytes compressed_part(std::string_view kind, Bytes content) {
    if (kind != "zTXt" && kind != "iCCP") {
        return {};
    }
    const auto name = std::ranges::find(content, std::uint8_t{0});
    const auto from = static_cast<std::size_t>(name - content.begin()) + 2;
    return from < content.size() ? content.subspan(from) : Bytes();
}

void check_png(Bytes bytes) {
    constexpr std::size_t kAround = 12;  // The length, the name and the checksum of a chunk.
    constexpr std::uint8_t kSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (bytes.size() >= sizeof(kSignature) && std::memcmp(bytes.data(), kSignature, sizeof(kSignature)) == 0) {
        bytes = bytes.subspan(sizeof(kSignature));
    }
    std::size_t left = kMaxMetadata;
    while (bytes.size() >= kAround) {
        const std::size_t length = std::min(big_endian(bytes, 0), bytes.size() - kAround);
        const std::string_view kind(reinterpret_cast<const char*>(bytes.data()) + 4, 4);
        const Bytes compressed = compressed_part(kind, bytes.subspan(8, length));
        // Hardly any file has so much that it has to be inflated here.
        const std::size_t size =
            compressed.size() < left / kMaxRatio ? compressed.size() * kMaxRatio : inflated_size(compressed, left);
        if (size >= left) {
            throw MediaError("the PNG's compressed texts and profiles inflate to more than the " +
                             megabytes(kMaxMetadata) + " that are accepted, or are damaged: its chunk " +
                             std::string(kind) + " of " + std::to_string(length) + " bytes is one too many");
        }
        left -= size;
        bytes = bytes.subspan(length + kAround);
    }
}

// TIFF 6.0 (Adobe, 1992) and its supplements.
enum TiffTag : std::uint16_t {
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
    kColors = 320,
    kSubDirectories = 330,
    kSubsampling = 530,
    kDngVersion = 50706,
};

enum TiffCompression : std::uint32_t { kAdobeDeflate = 8, kDeflate = 32946, kLzma = 34925 };

using Numbers = std::vector<std::uint32_t>;

[[noreturn]] void refuse_tiff(const std::string& reason) {
    throw MediaError("cannot decode the TIFF: " + reason);
}

// FFmpeg takes colours from anything, and colours that are missing for black.
void check_colors(const TiffDirectory& directory) {
    constexpr std::uint32_t kPalette = 3;
    constexpr std::uint32_t kMostBits = 16;
    if (directory.integer(kPhotometric) != kPalette) {
        return;
    }
    const Numbers bits = directory.integers(kBitsPerSample).value_or(Numbers{1});
    if (bits.empty() || bits[0] > kMostBits) {
        return;
    }
    const std::size_t wanted = std::size_t{3} << bits[0];
    const std::optional<Numbers> colors = directory.integers(kColors);
    if (directory.type(kColors) != TiffDirectory::kShort || !colors || colors->size() != wanted) {
        refuse_tiff("its pixels are indices of colours, and its colour map (the directory's entry 320) is missing or " +
                    ("damaged: " + std::to_string(wanted) + " numbers of 16 bits within the file are accepted"));
    }
}

// The strips of a directory. FFmpeg guesses what is missing or contradictory; here that is an error.
struct Strips {
    Numbers offsets;
    Numbers sizes;
    std::size_t in_plane = 0;   // How many strips a plane has.
    std::size_t last_rows = 0;  // How many rows the last of them has.
    std::size_t rows = 0;       // How many the others have.
    std::size_t row = 0;        // The bytes that FFmpeg takes for a row.
    std::size_t block = 0;      // The bytes, and the rows, of what it takes at once: rows that share their colours.
    std::size_t block_rows = 1;

    // Returns how many bytes FFmpeg reads of a strip.
    [[nodiscard]] std::size_t needed(std::size_t index) const {
        const std::size_t here = index % in_plane == in_plane - 1 ? last_rows : rows;
        return ((here + block_rows - 1) / block_rows - 1) * row + std::max(row, block);
    }
};

std::optional<Strips> find_strips(const TiffDirectory& directory) {
    constexpr std::uint64_t kMostBits = 128;  // Of a pixel.
    constexpr std::uint32_t kYcc = 6;
    const auto one = [&](TiffTag tag, std::uint32_t absent) {
        return directory.has(tag) ? directory.integer(tag).value_or(0) : absent;
    };
    const std::uint64_t width = one(kWidth, 0);
    const std::uint64_t height = one(kHeight, 0);
    const std::uint32_t planar = one(kPlanarConfiguration, 1);
    const Numbers bits = directory.integers(kBitsPerSample).value_or(Numbers{});
    const std::uint32_t samples = one(kSamplesPerPixel, static_cast<std::uint32_t>(bits.size()));
    const std::uint32_t order = one(kFillOrder, 1);
    if (!directory.is_sorted() || width == 0 || height == 0 || width > kMaxSide || height > kMaxSide || samples == 0 ||
        (bits.size() != samples && bits.size() != 1) || planar < 1 || planar > 2 || order != 1 ||
        std::ranges::any_of(bits, [&](std::uint32_t each) { return each != bits[0]; }) ||
        std::uint64_t{samples} * bits[0] > kMostBits) {
        return std::nullopt;
    }
    const std::uint64_t rows = std::min<std::uint64_t>(one(kRowsPerStrip, ~0U), height);
    const std::size_t planes = planar == 2 ? samples : 1;
    Strips strips{directory.integers(kStripOffsets).value_or(Numbers{}),
                  directory.integers(kStripSizes).value_or(Numbers{})};
    if (rows == 0) {
        return std::nullopt;
    }
    strips.in_plane = (height + rows - 1) / rows;
    strips.rows = rows;
    strips.last_rows = height - (strips.in_plane - 1) * rows;
    strips.row = strips.block = (width * bits[0] * (planar == 2 ? 1 : samples) + 7) / 8;
    if (strips.offsets.size() != strips.in_plane * planes || strips.sizes.size() != strips.offsets.size()) {
        return std::nullopt;
    }
    if (directory.integer(kPhotometric) == kYcc && planar == 1 && samples == 3 && bits[0] == 8) {
        const bool said = directory.has(kSubsampling);
        const Numbers factors = said ? directory.integers(kSubsampling).value_or(Numbers{}) : Numbers{1, 1};
        if (factors.size() != 2 || factors[0] == 0 || factors[1] == 0 || factors[0] > 4 || factors[1] > 4) {
            return std::nullopt;
        }
        strips.block_rows = factors[1];
        strips.block = (width + factors[0] - 1) / factors[0] * (std::size_t{factors[0]} * factors[1] + 2);
    }
    return strips;
}

// Returns whether a strip inflates to as many bytes, or more. Its checksum is FFmpeg's affair.
bool inflates_to(Bytes strip, std::size_t needed) {
    constexpr std::size_t kHeader = 2;
    if (strip.size() <= kHeader || needed / kMaxRatio > strip.size()) {
        return false;
    }
    const AlignedBuffer result(needed);
    std::size_t made = 0;
    const libdeflate_result code = libdeflate_deflate_decompress(decompressor(), strip.data() + kHeader,
                                                                 strip.size() - kHeader, result.data(), needed, &made);
    return code == LIBDEFLATE_INSUFFICIENT_SPACE || (code == LIBDEFLATE_SUCCESS && made == needed);
}

void check_strips(Bytes tiff, const TiffDirectory& directory, std::int64_t max_pixels) {
    const std::uint64_t pixels =
        std::uint64_t{directory.integer(kWidth).value_or(0)} * directory.integer(kHeight).value_or(0);
    if (std::cmp_greater(pixels, max_pixels)) {
        return;  // FFmpeg refuses it for its size.
    }
    const std::optional<Strips> strips = find_strips(directory);
    if (!strips) {
        refuse_tiff("its pixels are deflated, and what its directory says of them is not enough for FFmpeg. " +
                    std::string("Read it without `backend=\"ffmpeg\"`"));
    }
    for (std::size_t i = 0; i < strips->offsets.size(); ++i) {
        const Bytes strip = tail(tiff, strips->offsets[i]);
        if (strips->sizes[i] > strip.size() || !inflates_to(strip.first(strips->sizes[i]), strips->needed(i))) {
            refuse_tiff("its strip " + std::to_string(i + 1) + " of " + std::to_string(strips->offsets.size()) +
                        " is damaged, or ends early");
        }
    }
}

void check_directory(Bytes tiff, const TiffDirectory& directory, std::int64_t max_pixels) {
    check_colors(directory);
    const std::optional<std::uint32_t> compression = directory.integer(kCompression);
    if (compression == kDeflate || compression == kAdobeDeflate) {
        check_strips(tiff, directory, max_pixels);
    }
    if (compression == kLzma) {
        refuse_tiff("its pixels are compressed with LZMA: store it without compression, or with LZW or deflate");
    }
}

// Options, and the kind of raw photo that DNG is, have FFmpeg choose another directory than the first.
void check_tiff(Bytes tiff, bool any_directory, std::int64_t max_pixels) {
    constexpr std::size_t kMost = 1000;
    std::optional<TiffDirectory> directory = TiffDirectory::first(tiff);
    for (std::size_t i = 0; directory && i < kMost; ++i) {
        check_directory(tiff, *directory, max_pixels);
        const bool photo = directory->has(kDngVersion);
        if (!any_directory && !photo) {
            return;
        }
        for (const std::uint32_t place : directory->integers(kSubDirectories).value_or(Numbers{})) {
            if (const std::optional<TiffDirectory> below = TiffDirectory::at(tiff, place)) {
                check_directory(tiff, *below, max_pixels);
            }
        }
        const std::uint64_t next = directory->next().value_or(0);
        directory = next == 0 ? std::nullopt : TiffDirectory::at(tiff, next);
    }
}

}  // namespace

void check_container(Bytes bytes) {
    // The claimed size follows the name of the method and four bytes with the name of what follows.
    constexpr std::string_view kCompressed = "dcomzlib";
    constexpr std::size_t kClaim = kCompressed.size() + 8;
    const auto* at = bytes.data();
    const auto* const end = at + bytes.size();
    while ((at = static_cast<const std::uint8_t*>(
                memmem(at, static_cast<std::size_t>(end - at), kCompressed.data(), kCompressed.size()))) != nullptr) {
        const Bytes rest(at, end);
        if (rest.size() >= kClaim + 4 && big_endian(rest, kClaim) > kMaxMetadata) {
            throw MediaError("the container's compressed header is said to inflate to " +
                             megabytes(big_endian(rest, kClaim)) + "; " + megabytes(kMaxMetadata) + " are accepted");
        }
        at += kCompressed.size();
    }
}

void check_items(Bytes bytes) {
    const ImageItems items(bytes);
    if (items.any() && items.content(items.primary()).empty()) {
        throw MediaError("cannot read the image: the file does not say where its picture is, or it is not there");
    }
}

void check_picture(const ImagePacket& image, const DecodeOptions& options) {
    const Bytes packet(image.packet->data, static_cast<std::size_t>(image.packet->size));
    const AVCodecID codec = image.parameters->codec_id;
    if (codec == AV_CODEC_ID_PNG || codec == AV_CODEC_ID_APNG) {
        check_png(packet);
        check_png({image.parameters->extradata, static_cast<std::size_t>(image.parameters->extradata_size)});
    } else if (codec == AV_CODEC_ID_TIFF) {
        check_tiff(packet, !options.decoder_options.empty(), options.max_pixels + kPaddingPixels);
    }
}

}  // namespace spdl
