#include "image/tiff/tiff_picture.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <string>

namespace spdl {
namespace {

int side(const TiffFile& file, std::uint32_t tag) {
    constexpr std::uint32_t kMost = std::numeric_limits<int>::max();
    return static_cast<int>(std::min(file.value<std::uint32_t>(tag, 0), kMost));
}

std::string compression_name(std::uint16_t number) {
    switch (number) {
        case COMPRESSION_LZMA:
            return "LZMA";
        case COMPRESSION_WEBP:
            return "WebP";
        case COMPRESSION_LERC:
        case 34888:  // Esri's own number.
            return "LERC";
        case COMPRESSION_JBIG:
            return "JBIG";
        case COMPRESSION_JP2000:
        case 33003:  // Aperio's.
        case 33005:
            return "JPEG 2000";
        case COMPRESSION_JXL:
        case 52546:
            return "JPEG XL";
        default:
            return "a method (number " + std::to_string(number) + ") that is not known";
    }
}

void check_compression(std::uint16_t compression) {
    if (TIFFIsCODECConfigured(compression) == 0) {
        refuse_tiff("compressed with " + compression_name(compression) +
                    ": store it without compression, or with LZW, deflate, zstd or JPEG");
    }
    if (compression == COMPRESSION_SGILOG || compression == COMPRESSION_SGILOG24) {
        refuse_tiff("logarithms of light (LogLuv), which have no 8-bit RGB");
    }
}

TiffColors colors_of(std::uint16_t meaning, int samples) {
    switch (meaning) {
        case PHOTOMETRIC_MINISWHITE:
        case PHOTOMETRIC_MINISBLACK:
            return TiffColors::kGray;
        case PHOTOMETRIC_RGB:
            return TiffColors::kRgb;
        case PHOTOMETRIC_PALETTE:
            return TiffColors::kPalette;
        case PHOTOMETRIC_SEPARATED:
            return TiffColors::kCmyk;
        case PHOTOMETRIC_YCBCR:
            return samples == 1 ? TiffColors::kGray : TiffColors::kYcbcr;
        case PHOTOMETRIC_CIELAB:
        case PHOTOMETRIC_ICCLAB:
        case PHOTOMETRIC_ITULAB:
            refuse_tiff("in the colour space Lab, which is not converted: store it as RGB");
        case PHOTOMETRIC_LOGL:
        case PHOTOMETRIC_LOGLUV:
            refuse_tiff("logarithms of light (LogLuv), which have no 8-bit RGB");
        case PHOTOMETRIC_CFA:
            refuse_tiff("those of a raw photo, which is not developed");
        case PHOTOMETRIC_MASK:
            refuse_tiff("a mask for another picture");
        default:
            refuse_tiff("in a colour space (number " + std::to_string(meaning) + ") that is not known");
    }
}

std::string described(const TiffPicture& picture) {
    const char* const numbers = picture.numbers == TiffNumbers::kSigned  ? "signed "
                                : picture.numbers == TiffNumbers::kFloat ? "floating-point "
                                                                         : "";
    return std::to_string(picture.samples) + " " + numbers + (picture.samples == 1 ? "sample" : "samples") + " of " +
           std::to_string(picture.bits) + " bits";
}

// libtiff leaves out what is damaged, and goes on as if nothing were said.
void check_entries(const TiffFile& file) {
    constexpr std::uint16_t kTags[] = {TIFFTAG_BITSPERSAMPLE,    TIFFTAG_COMPRESSION,        TIFFTAG_PHOTOMETRIC,
                                       TIFFTAG_FILLORDER,        TIFFTAG_SAMPLESPERPIXEL,    TIFFTAG_PLANARCONFIG,
                                       TIFFTAG_COLORMAP,         TIFFTAG_EXTRASAMPLES,       TIFFTAG_SAMPLEFORMAT,
                                       TIFFTAG_YCBCRSUBSAMPLING, TIFFTAG_REFERENCEBLACKWHITE};
    const std::optional<TiffDirectory> directory = file.directory();
    for (const std::uint16_t tag : kTags) {
        if (directory && directory->has(tag) && !file.has(tag)) {
            file.fail("its directory's entry " + std::to_string(tag) + " is damaged");
        }
    }
}

void find_alpha(const TiffFile& file, TiffPicture& picture) {
    const int first = picture.color_samples();
    std::uint16_t count = 0;
    std::uint16_t* kinds = nullptr;
    if (TIFFGetField(file.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1) {
        count = 0;
    }
    if (count == 0 && picture.colors == TiffColors::kRgb && picture.samples == first + 1) {
        // Some programs forget to say that it is alpha.
        picture.alpha = first;
        return;
    }
    if (first + count != picture.samples) {
        refuse_tiff(described(picture) + ", " + std::to_string(first + count) + " of which are described");
    }
    for (int i = 0; i < count; ++i) {
        if (kinds[i] == EXTRASAMPLE_ASSOCALPHA || kinds[i] == EXTRASAMPLE_UNASSALPHA) {
            picture.alpha = first + i;
            picture.multiplied = kinds[i] == EXTRASAMPLE_ASSOCALPHA;
            return;
        }
    }
}

void read_numbers(const TiffFile& file, TiffPicture& picture) {
    constexpr int kMostUnsigned = 16;
    switch (file.value<std::uint16_t>(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT)) {
        case SAMPLEFORMAT_INT:
            picture.numbers = TiffNumbers::kSigned;
            break;
        case SAMPLEFORMAT_IEEEFP:
            picture.numbers = TiffNumbers::kFloat;
            break;
        case SAMPLEFORMAT_COMPLEXINT:
        case SAMPLEFORMAT_COMPLEXIEEEFP:
            refuse_tiff("complex numbers");
        default:
            break;
    }
    const bool gray = picture.colors == TiffColors::kGray && picture.alpha == 0;
    const int bits = picture.bits;
    bool read = false;
    switch (picture.numbers) {
        case TiffNumbers::kUnsigned:
            read = bits <= kMostUnsigned || (gray && !picture.inverted && bits == 32);
            break;
        case TiffNumbers::kSigned:
            read = gray && !picture.inverted && (bits == 8 || bits == 16 || bits == 32);
            break;
        case TiffNumbers::kFloat:
            read = gray && (bits == 32 || bits == 64);
            break;
    }
    // Only of levels is it known which is white.
    picture.inverted = picture.inverted && picture.numbers == TiffNumbers::kUnsigned;
    if (!read) {
        refuse_tiff(described(picture) + ", whose range is not known: store it with 8 or 16 bits, unsigned");
    }
}

void read_palette(const TiffFile& file, TiffPicture& picture) {
    constexpr int kBits[] = {1, 2, 4, 8};
    constexpr unsigned kUpper = 8;
    std::uint16_t* colors[3] = {};
    if (TIFFGetField(file.get(), TIFFTAG_COLORMAP, &colors[0], &colors[1], &colors[2]) != 1) {
        refuse_tiff("indices of colours that it does not have");
    }
    if (std::ranges::find(kBits, picture.bits) == std::end(kBits)) {
        refuse_tiff("indices of " + std::to_string(picture.bits) + " bits: store it as RGB");
    }
    const std::size_t count = std::size_t{1} << static_cast<unsigned>(picture.bits);
    picture.palette.resize(3 * count);
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t channel = 0; channel < 3; ++channel) {
            picture.palette[3 * i + channel] = static_cast<std::uint8_t>(colors[channel][i] >> kUpper);
        }
    }
}

bool is_subsampled(const TiffFile& file) {
    std::uint16_t wide = 0;
    std::uint16_t high = 0;
    TIFFGetFieldDefaulted(file.get(), TIFFTAG_YCBCRSUBSAMPLING, &wide, &high);
    return wide != 1 || high != 1;
}

bool has_all_levels(const TiffFile& file) {
    constexpr float kAll[] = {0, 255, 128, 255, 128, 255};
    const float* levels = nullptr;
    return TIFFGetFieldDefaulted(file.get(), TIFFTAG_REFERENCEBLACKWHITE, &levels) == 1 &&
           std::ranges::equal(kAll, std::span(levels, std::size(kAll)));
}

void read_colors(const TiffFile& file, TiffPicture& picture, std::uint16_t compression) {
    constexpr std::uint32_t kPalette = PHOTOMETRIC_PALETTE;
    const auto meaning = file.value<std::uint16_t>(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISWHITE);
    picture.colors = colors_of(meaning, picture.samples);
    picture.inverted = meaning == PHOTOMETRIC_MINISWHITE;
    if (const auto directory = file.directory();
        picture.colors != TiffColors::kPalette && directory && directory->integer(TIFFTAG_PHOTOMETRIC) == kPalette) {
        // libtiff takes them for gray.
        refuse_tiff("indices of colours that it does not have");
    }
    if (picture.colors == TiffColors::kYcbcr && compression == COMPRESSION_JPEG && !picture.planar) {
        // libjpeg converts them.
        TIFFSetField(file.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        picture.colors = TiffColors::kRgb;
    }
    if (picture.samples < picture.color_samples()) {
        refuse_tiff(described(picture) + ", fewer than their colour space (number " + std::to_string(meaning) +
                    ") has");
    }
    if (picture.colors == TiffColors::kYcbcr) {
        char words[1024] = "";
        if (picture.samples != 3 || picture.bits != 8 || TIFFRGBAImageOK(file.get(), words) != 1) {
            refuse_tiff(described(picture) + " of YCbCr, which libtiff does not convert");
        }
        // Pillow, too, converts these by itself.
        picture.by_libtiff = compression != COMPRESSION_NONE || is_subsampled(file) || !has_all_levels(file);
    }
}

}  // namespace

int TiffPicture::color_samples() const {
    switch (colors) {
        case TiffColors::kRgb:
        case TiffColors::kYcbcr:
            return 3;
        case TiffColors::kCmyk:
            return 4;
        default:
            return 1;
    }
}

TiffPicture read_tiff_picture(const TiffFile& file) {
    constexpr int kByte = 8;
    TiffPicture picture;
    picture.size = {side(file, TIFFTAG_IMAGEWIDTH), side(file, TIFFTAG_IMAGELENGTH)};
    picture.bits = file.value<std::uint16_t>(TIFFTAG_BITSPERSAMPLE, 1);
    picture.samples = file.value<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL, 1);
    picture.planar = file.value<std::uint16_t>(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
    const auto compression = file.value<std::uint16_t>(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    check_compression(compression);
    check_entries(file);
    if (picture.samples > 1 && !file.has(TIFFTAG_BITSPERSAMPLE)) {
        file.fail("it does not say how many bits its samples have");
    }
    read_colors(file, picture, compression);
    find_alpha(file, picture);
    read_numbers(file, picture);
    if (picture.colors == TiffColors::kPalette) {
        read_palette(file, picture);
    }
    constexpr std::uint16_t kWhole[] = {COMPRESSION_NONE,    COMPRESSION_LZW,      COMPRESSION_ADOBE_DEFLATE,
                                        COMPRESSION_DEFLATE, COMPRESSION_PACKBITS, COMPRESSION_ZSTD,
                                        COMPRESSION_PIXARLOG};
    picture.deflated = compression == COMPRESSION_ADOBE_DEFLATE || compression == COMPRESSION_DEFLATE;
    if (picture.deflated) {
        TIFFSetField(file.get(), TIFFTAG_DEFLATE_SUBCODEC, DEFLATE_SUBCODEC_ZLIB);
    }
    picture.may_end_early = std::ranges::find(kWhole, compression) == std::end(kWhole);
    const bool colored = picture.colors != TiffColors::kGray;
    const bool wide = picture.numbers == TiffNumbers::kUnsigned && picture.bits > kByte && picture.bits <= 2 * kByte &&
                      picture.colors != TiffColors::kYcbcr;
    picture.format = {(colored ? 3 : 1) + (picture.alpha > 0 ? 1 : 0), wide ? 2 : 1};
    return picture;
}

}  // namespace spdl
