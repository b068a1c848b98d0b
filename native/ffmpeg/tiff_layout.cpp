#include "ffmpeg/tiff_layout.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "core/bounded_read.h"

namespace spdl {
namespace {

using Integers = std::vector<std::uint32_t>;
using Levels = std::vector<double>;

// Kinds of extra samples.
constexpr std::uint32_t kMultipliedAlpha = 1;

// Kinds of samples.
constexpr std::uint32_t kUnsigned = 1;
constexpr std::uint32_t kUndefined = 4;

constexpr std::uint32_t kHorizontal = 2;

Integers bits_of(const TiffDescription& picture) {
    Integers bits = picture.integers(kBitsPerSample);
    return bits.empty() ? Integers{1} : bits;
}

std::uint32_t samples_of(const TiffDescription& picture, const Integers& bits) {
    return picture.integer(kSamplesPerPixel, static_cast<std::uint32_t>(bits.size()));
}

// The strips of the first encoder of LZW, of Aldus, begin with a clear code whose lowest bit comes first.
bool is_old_lzw(Bytes tiff, const TiffDescription& picture) {
    const Bytes strip = tail(tiff, picture.integer(kStripOffsets, 0));
    return strip.size() >= 2 && strip[0] == 0 && (strip[1] & 1U) != 0;
}

std::optional<std::string> unread_compression(Bytes tiff, const TiffDescription& picture) {
    const std::uint32_t compression = picture.integer(kCompression, kNone);
    switch (compression) {
        case kNone:
        case kFaxRuns:
        case kFax3:
        case kFax4:
        case kAdobeDeflate:
        case kDeflate:
        case kPackBits:
            return std::nullopt;
        case kLzw:
            if (is_old_lzw(tiff, picture)) {
                return "compressed with LZW of the old style, which FFmpeg does not read";
            }
            return std::nullopt;
        case kOldJpeg:
        case kJpeg:
            return "compressed as JPEG, which FFmpeg does not read";
        case kLzma:
            return "compressed with LZMA, of which FFmpeg takes no notice where it ends early";
        default:
            return "compressed in a way (number " + std::to_string(compression) + ") that is not read";
    }
}

std::optional<std::string> unread_bits(const TiffDescription& picture, std::uint32_t compression,
                                       const Integers& bits) {
    if (!std::ranges::all_of(bits, [&](std::uint32_t each) { return each == bits.front(); })) {
        return "of samples that have different numbers of bits";
    }
    const Integers kinds = picture.integers(kSampleFormat);
    if (!std::ranges::all_of(kinds, [](std::uint32_t kind) { return kind == kUnsigned || kind == kUndefined; })) {
        return "of signed or floating-point samples, which FFmpeg takes for unsigned ones";
    }
    const bool few = bits.front() == 2 || bits.front() == 4;
    if (few && (compression == kNone || compression == kPackBits) && picture.integer(kFillOrder, 1) == 2) {
        return "of 2 or 4 bits, the lowest of a byte first, which FFmpeg does not read";
    }
    if (picture.integer(kPredictor, 1) == kHorizontal && bits.front() != 8 && bits.front() != 16 &&
        (compression == kLzw || is_deflate(compression))) {
        return "differences of samples that have neither 8 nor 16 bits";
    }
    return std::nullopt;
}

bool has_all_levels(const TiffDescription& picture) {
    return picture.directory().fractions(kReferenceLevels) == Levels{0, 255, 128, 255, 128, 255};
}

std::optional<std::string> unread_samples(const TiffDescription& picture, const Integers& bits) {
    const Integers meanings = picture.integers(kPhotometric);
    if (meanings.empty()) {
        return "of samples of unknown meaning, since the tag PhotometricInterpretation is missing";
    }
    if (meanings.front() == kPalette && picture.integers(kColors).size() < std::size_t{3}
                                                                               << std::min(bits.front(), 16U)) {
        return "indices of colours that it does not have";
    }
    const std::uint32_t samples = samples_of(picture, bits);
    const bool whole = bits.front() == 8 || bits.front() == 16;
    const bool multiplied = is_multiplied_by_alpha(picture);
    bool read = false;
    switch (meanings.front()) {
        case kMinIsWhite:
            read = samples == 1;
            break;
        case kMinIsBlack:
            read = samples == 1 || (samples == 2 && whole && !multiplied);
            break;
        case kRgb:
            // FFmpeg stores planes of four samples in an order of its own.
            read = whole &&
                   (samples == 3 || (samples == 4 && (!multiplied || (bits.front() == 8 && !is_planar(picture)))));
            break;
        case kPalette:
            read = samples == 1 && bits.front() <= 8;
            break;
        case kCmyk:
            read = samples == 4 && bits.front() == 8;
            break;
        case kYcbcr:
            if (picture.has(kReferenceLevels) && !has_all_levels(picture) && !has_video_levels(picture)) {
                return "YCbCr whose black and white are neither 0 and 255 nor 16 and 235";
            }
            read = samples == 3 && bits.front() == 8;
            break;
        default:
            break;
    }
    if (read) {
        return std::nullopt;
    }
    return "of " + std::to_string(samples) + (multiplied ? " samples, multiplied by alpha," : " samples") + " of " +
           std::to_string(bits.front()) + " bits in the colour space " + std::to_string(meanings.front()) +
           ", which FFmpeg takes for others or does not read";
}

}  // namespace

bool has_video_levels(const TiffDescription& picture) {
    Levels levels = picture.directory().fractions(kReferenceLevels);
    if (!levels.empty() && levels.front() == 15) {
        levels.front() = 16;  // FFmpeg writes 15 for the black that it means.
    }
    return picture.integer(kPhotometric, kMinIsWhite) == kYcbcr && levels == Levels{16, 235, 128, 240, 128, 240};
}

bool is_multiplied_by_alpha(const TiffDescription& picture) {
    return picture.integer(kExtraSamples, 0) == kMultipliedAlpha;
}

void check_layout(Bytes tiff, const TiffDescription& picture) {
    const std::uint32_t compression = picture.integer(kCompression, kNone);
    const Integers bits = bits_of(picture);
    std::optional<std::string> unread = unread_compression(tiff, picture);
    if (picture.has(kDngVersion)) {
        unread = "those of a raw photo, which is not developed";
    } else if (const auto number = picture.integer(kPlanarConfiguration, 1); number < 1 || number > 2) {
        unread = "laid out in a way (number " + std::to_string(number) + ") that is not known";
    } else if (!unread && picture.has(kTileWidth)) {
        unread = "stored in tiles, which FFmpeg does not read";
    }
    if (!unread) {
        unread = unread_bits(picture, compression, bits);
    }
    if (!unread) {
        unread = unread_samples(picture, bits);
    }
    if (unread) {
        fail_tiff("its pixels are " + *unread +
                  ": store it as a TIFF of strips, without compression or with LZW or deflate, or as a PNG");
    }
}

}  // namespace spdl
