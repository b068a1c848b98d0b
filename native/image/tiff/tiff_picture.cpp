#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>
#include <string>

#include "core/decompressor.h"
#include "image/tiff/tiff.h"

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

// Returns how many bytes of pixels a byte of data is at most.
double most_of_a_byte(std::uint16_t compression, double row_bytes) {
    switch (compression) {
        case COMPRESSION_NONE:
            return 1;
        case COMPRESSION_PACKBITS:
            return 64;  // Two bytes are up to 128.
        case COMPRESSION_CCITTRLE:
        case COMPRESSION_CCITTRLEW:
        case COMPRESSION_CCITTFAX3:
        case COMPRESSION_CCITTFAX4:
            return 8 * row_bytes;  // A bit may be a row that is as the one above it.
        case COMPRESSION_DEFLATE:
        case COMPRESSION_ADOBE_DEFLATE:
            return 1032;  // Two bits may repeat 258 bytes.
        case COMPRESSION_LZW:
            return 4096;
        default:
            return 1 << 16;  // A block of zstd's has four bytes or more, and is up to 128 KiB.
    }
}

// Every sample is stored as its difference from the previous pixel's.
template <std::size_t kSamples, typename Sample>
void add_up(Sample* samples, std::size_t count) {
    Sample sums[kSamples] = {};
    for (std::size_t at = 0; at + kSamples <= count; at += kSamples) {
        for (std::size_t i = 0; i < kSamples; ++i) {
            sums[i] = static_cast<Sample>(sums[i] + samples[at + i]);
            samples[at + i] = sums[i];
        }
    }
}

template <typename Sample>
void add_up_rows(std::uint8_t* rows, std::size_t row_bytes, std::size_t row_count, std::size_t samples) {
    constexpr auto kAddUp = [](std::size_t number) {
        return number == 1   ? add_up<1, Sample>
               : number == 2 ? add_up<2, Sample>
               : number == 3 ? add_up<3, Sample>
                             : add_up<4, Sample>;
    };
    for (std::size_t y = 0; y < row_count; ++y, rows += row_bytes) {
        kAddUp(samples)(reinterpret_cast<Sample*>(rows), row_bytes / sizeof(Sample));
    }
}

void swap_bytes(std::uint8_t* samples, std::size_t bytes, int bits) {
    switch (bits) {
        case 16:
            return TIFFSwabArrayOfShort(reinterpret_cast<std::uint16_t*>(samples), static_cast<tmsize_t>(bytes / 2));
        case 32:
            return TIFFSwabArrayOfLong(reinterpret_cast<std::uint32_t*>(samples), static_cast<tmsize_t>(bytes / 4));
        case 64:
            return TIFFSwabArrayOfLong8(reinterpret_cast<std::uint64_t*>(samples), static_cast<tmsize_t>(bytes / 8));
        default:
            return;
    }
}

constexpr std::uint32_t kMostByte = 255;

// Numbers of the machine's order, clipped to a byte. NaN becomes 0.
template <typename Number>
struct Clipped {
    std::uint8_t operator()(const std::uint8_t* row, std::size_t index) const {
        Number value;
        std::memcpy(&value, row + index * sizeof value, sizeof value);
        if (!(value > Number{0})) {
            return 0;
        }
        return value >= Number{kMostByte} ? std::uint8_t{kMostByte} : static_cast<std::uint8_t>(value);
    }
};

struct Byte {
    std::uint8_t operator()(const std::uint8_t* row, std::size_t index) const { return row[index]; }
};

template <typename Sample>
struct Wide {
    Sample operator()(const std::uint8_t* row, std::size_t index) const {
        std::uint16_t value;
        std::memcpy(&value, row + index * sizeof value, sizeof value);
        return static_cast<Sample>(sizeof(Sample) == 2 ? value : value >> 8U);
    }
};

// Samples that lie bit by bit, the highest one first.
template <typename Sample>
class Bits {
  public:
    explicit Bits(int bits) : bits_(static_cast<unsigned>(bits)), most_((1U << bits_) - 1) {}

    Sample operator()(const std::uint8_t* row, std::size_t index) const {
        const std::size_t at = index * bits_;
        const auto left = static_cast<unsigned>(at % 8) + bits_;
        std::uint32_t value = 0;
        for (unsigned read = 0; read < left; read += 8) {
            value = value << 8U | row[at / 8 + read / 8];
        }
        value = value >> ((8 - left % 8) % 8) & most_;
        if (bits_ <= 8) {
            return static_cast<Sample>((value * kMostByte + most_ / 2) / most_);
        }
        // The upper bits once more below.
        value = value << (16 - bits_) | value >> (2 * bits_ - 16);
        return static_cast<Sample>(sizeof(Sample) == 2 ? value : value >> 8U);
    }

  private:
    unsigned bits_;
    std::uint32_t most_;
};

// The same where none lies in two bytes. Indices are not spread over all levels.
template <std::size_t kBits, bool kIndex>
struct Few {
    static constexpr std::uint32_t kMost = (1U << kBits) - 1;

    std::uint8_t operator()(const std::uint8_t* row, std::size_t index) const {
        const std::size_t at = index * kBits;
        const std::uint32_t value = static_cast<std::uint32_t>(row[at / 8]) >> (8 - kBits - at % 8) & kMost;
        return static_cast<std::uint8_t>(kIndex ? value : value * (kMostByte / kMost));
    }
};

template <typename Sample, typename Read>
void take(const Read& read, const TiffRow& from, Sample* to, std::size_t step) {
    for (std::size_t i = 0; i < from.count; ++i) {
        to[i * step] = read(from.row, from.first + i * from.step);
    }
}

template <typename Sample>
std::uint32_t most() {
    return std::numeric_limits<Sample>::max();
}

// A product of two levels, as a level.
template <typename Sample>
std::uint32_t product(std::uint32_t first, std::uint32_t second) {
    constexpr unsigned kBits = 8 * sizeof(Sample);
    const std::uint32_t twice = first * second + (1U << (kBits - 1));
    return ((twice >> kBits) + twice) >> kBits;
}

template <typename Sample>
void invert_ink(const Sample* ink, Sample* to) {
    const std::uint32_t light = most<Sample>() - ink[3];
    for (int i = 0; i < 3; ++i) {
        to[i] = static_cast<Sample>(light - product<Sample>(ink[i], light));
    }
}

template <typename Sample>
void make_rgb(const Sample* ycbcr, Sample* to) {
    // Only samples of a byte are read so.
    const auto byte = [=](int i) { return static_cast<std::uint8_t>(ycbcr[i]); };
    const auto [red, green, blue] = color_of_ycc(byte(0), byte(1), byte(2));
    to[0] = red;
    to[1] = green;
    to[2] = blue;
}

template <typename Sample>
Sample divided(Sample value, Sample alpha) {
    return static_cast<Sample>(std::min(most<Sample>(), value * most<Sample>() / alpha));
}

// Calls `make(from, to)` for each pixel, which writes `kShown` samples of the `kColors`, and handles alpha.
template <std::size_t kColors, std::size_t kShown, typename Sample, typename Make>
void make_pixels(const TiffPicture& picture, const Sample* from, std::size_t count, Sample* to, const Make& make) {
    if (picture.alpha == 0) {
        for (std::size_t i = 0; i < count; ++i) {
            make(from + i * kColors, to + i * kShown);
        }
        return;
    }
    for (std::size_t i = 0; i < count; ++i, from += kColors + 1, to += kShown + 1) {
        make(from, to);
        const Sample alpha = from[kColors];
        to[kShown] = alpha;
        for (std::size_t channel = 0; picture.multiplied && channel < kShown; ++channel) {
            // Gray below no alpha is kept, as Pillow keeps it.
            to[channel] = alpha > 0 ? divided(to[channel], alpha) : kShown == 1 ? to[channel] : Sample{0};
        }
    }
}

template <std::size_t kBits, typename Sample>
void take_few(const TiffRow& from, Sample* to, std::size_t step) {
    return from.index ? take(Few<kBits, true>{}, from, to, step) : take(Few<kBits, false>{}, from, to, step);
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
    picture.lossy = compression == COMPRESSION_JPEG || compression == COMPRESSION_OJPEG;
    const bool colored = picture.colors != TiffColors::kGray;
    const bool wide = picture.numbers == TiffNumbers::kUnsigned && picture.bits > kByte && picture.bits <= 2 * kByte &&
                      picture.colors != TiffColors::kYcbcr;
    picture.format = {(colored ? 3 : 1) + (picture.alpha > 0 ? 1 : 0), wide ? 2 : 1};
    return picture;
}

void check_tiff_data(const TiffFile& file, const TiffPicture& picture) {
    TIFF* const tiff = file.get();
    const bool tiled = TIFFIsTiled(tiff) != 0;
    const std::uint32_t count = tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
    const std::uint64_t size = file.bytes().size();
    double held = 0;
    // Each that is there has an entry in the file.
    for (std::uint32_t i = 0; i < std::min<std::uint64_t>(count, size); ++i) {
        const std::uint64_t from = std::min(TIFFGetStrileOffset(tiff, i), size);
        held += static_cast<double>(std::min(TIFFGetStrileByteCount(tiff, i), size - from));
    }
    const auto rows = static_cast<std::uint32_t>(picture.size.height);
    const double needed =
        tiled ? static_cast<double>(TIFFTileSize64(tiff)) * count
              : static_cast<double>(TIFFVStripSize64(tiff, rows)) * (picture.planar ? picture.samples : 1);
    const auto compression = file.value<std::uint16_t>(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    if (held * most_of_a_byte(compression, static_cast<double>(TIFFScanlineSize64(tiff))) < needed) {
        const std::string parts = tiled ? "tiles" : "strips";
        file.fail("its " + parts + " are missing, or end early: there are " +
                  std::to_string(static_cast<std::uint64_t>(held)) + " bytes in the file for " +
                  std::to_string(static_cast<std::uint64_t>(needed)) + " bytes of pixels");
    }
}

bool inflate_tiff(const TiffFile& file, const TiffPicture& picture, std::uint32_t number, std::size_t row_bytes,
                  std::size_t row_count, std::uint8_t* to) {
    constexpr std::size_t kMostSamples = 4;
    const std::size_t samples = picture.planar ? 1 : static_cast<std::size_t>(picture.samples);
    if (!picture.deflated) {
        return false;
    }
    const auto predictor = file.value<std::uint16_t>(TIFFTAG_PREDICTOR, PREDICTOR_NONE);
    const bool added =
        predictor == PREDICTOR_HORIZONTAL && (picture.bits == 8 || picture.bits == 16) && samples <= kMostSamples;
    if ((predictor != PREDICTOR_NONE && !added) ||
        file.value<std::uint16_t>(TIFFTAG_FILLORDER, FILLORDER_MSB2LSB) != FILLORDER_MSB2LSB) {
        return false;
    }
    const std::uint64_t begin = TIFFGetStrileOffset(file.get(), number);
    const std::uint64_t size = TIFFGetStrileByteCount(file.get(), number);
    const Bytes bytes = file.bytes();
    if (size == 0 || begin > bytes.size() || size > bytes.size() - begin) {
        return false;
    }
    const std::size_t room = row_bytes * row_count;
    if (libdeflate_zlib_decompress(decompressor(), bytes.data() + begin, size, to, room, nullptr) !=
        LIBDEFLATE_SUCCESS) {
        return false;
    }
    if (TIFFIsByteSwapped(file.get()) != 0) {
        swap_bytes(to, room, picture.bits);
    }
    if (added && picture.bits == 8) {
        add_up_rows<std::uint8_t>(to, row_bytes, row_count, samples);
    } else if (added) {
        add_up_rows<std::uint16_t>(to, row_bytes, row_count, samples);
    }
    return true;
}

template <typename Sample>
void take_tiff_samples(const TiffPicture& picture, const TiffRow& from, Sample* to, std::size_t step) {
    if (picture.numbers == TiffNumbers::kFloat) {
        return picture.bits == 64 ? take(Clipped<double>{}, from, to, step) : take(Clipped<float>{}, from, to, step);
    }
    switch (picture.bits) {
        case 1:
            return take_few<1>(from, to, step);
        case 2:
            return take_few<2>(from, to, step);
        case 4:
            return take_few<4>(from, to, step);
        case 8:
            return take(Byte{}, from, to, step);
        case 16:
            return picture.numbers == TiffNumbers::kSigned ? take(Clipped<std::int16_t>{}, from, to, step)
                                                           : take(Wide<Sample>{}, from, to, step);
        case 32:
            return picture.numbers == TiffNumbers::kSigned ? take(Clipped<std::int32_t>{}, from, to, step)
                                                           : take(Clipped<std::uint32_t>{}, from, to, step);
        default:
            return take(Bits<Sample>(picture.bits), from, to, step);
    }
}

template <typename Sample>
void make_tiff_pixels(const TiffPicture& picture, const Sample* samples, std::size_t count, Sample* to) {
    if (picture.as_ids) {
        std::copy_n(samples, count, to);
        return;
    }
    const auto copied = [](const Sample* from, Sample* pixel) { std::copy_n(from, 3, pixel); };
    switch (picture.colors) {
        case TiffColors::kPalette:
            return make_pixels<1, 3>(picture, samples, count, to,
                                     [palette = picture.palette.data()](const Sample* from, Sample* pixel) {
                                         const std::uint8_t* const color = palette + 3 * std::size_t{*from};
                                         pixel[0] = color[0];
                                         pixel[1] = color[1];
                                         pixel[2] = color[2];
                                     });
        case TiffColors::kCmyk:
            return make_pixels<4, 3>(picture, samples, count, to, invert_ink<Sample>);
        case TiffColors::kGray: {
            const auto inverted = static_cast<Sample>(picture.inverted ? most<Sample>() : 0);
            return make_pixels<1, 1>(picture, samples, count, to, [=](const Sample* from, Sample* pixel) {
                *pixel = static_cast<Sample>(*from ^ inverted);
            });
        }
        case TiffColors::kYcbcr:
            return make_pixels<3, 3>(picture, samples, count, to, make_rgb<Sample>);
        default:
            return make_pixels<3, 3>(picture, samples, count, to, copied);
    }
}

template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint8_t*, std::size_t);
template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint16_t*, std::size_t);
template void make_tiff_pixels(const TiffPicture&, const std::uint8_t*, std::size_t, std::uint8_t*);
template void make_tiff_pixels(const TiffPicture&, const std::uint16_t*, std::size_t, std::uint16_t*);

}  // namespace spdl
