#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/buffer.h"
#include "core/decompressor.h"
#include "core/errors.h"
#include "core/file_parts.h"
#include "core/geometry.h"
#include "image/png/png_header.h"
#include "media/decoder.h"
#include "media/image_format.h"
#include "media/pixel_format.h"

namespace spdl {
namespace {

// One of the seven smaller pictures that an interlaced PNG consists of (https://www.w3.org/TR/png-3/#8Interlace): which
// pixels it has, and how many. It may have none.
struct PngPass {
    int left = 0;
    int top = 0;
    int across = 1;
    int down = 1;
    Size size;
};

template <std::size_t kBytes>
void spread_bytes(const PngPass& pass, const std::uint8_t* row, std::uint8_t* to) noexcept {
    const std::size_t distance = kBytes * static_cast<std::size_t>(pass.across);
    to += kBytes * static_cast<std::size_t>(pass.left);
    for (int x = 0; x < pass.size.width; ++x, row += kBytes, to += distance) {
        std::memcpy(to, row, kBytes);
    }
}

void spread_bits(const PngPass& pass, const std::uint8_t* row, unsigned bits, std::uint8_t* to) noexcept {
    const auto count = static_cast<unsigned>(pass.size.width);
    for (unsigned x = 0; x < count; ++x) {
        const unsigned from = x * bits;
        const unsigned at = (static_cast<unsigned>(pass.left) + x * static_cast<unsigned>(pass.across)) * bits;
        const unsigned sample = (row[from / 8] >> (8 - bits - from % 8)) & ((1U << bits) - 1);
        to[at / 8] = static_cast<std::uint8_t>(to[at / 8] | sample << (8 - bits - at % 8));
    }
}

std::array<PngPass, 7> png_passes(Size whole) noexcept {
    std::array<PngPass, 7> passes{{{0, 0, 8, 8, {}},
                                   {4, 0, 8, 8, {}},
                                   {0, 4, 4, 8, {}},
                                   {2, 0, 4, 4, {}},
                                   {0, 2, 2, 4, {}},
                                   {1, 0, 2, 2, {}},
                                   {0, 1, 1, 2, {}}}};
    for (PngPass& pass : passes) {
        pass.size = {(whole.width - pass.left + pass.across - 1) / pass.across,
                     (whole.height - pass.top + pass.down - 1) / pass.down};
        if (pass.size.width <= 0 || pass.size.height <= 0) {
            pass.size = {};
        }
    }
    return passes;
}

// Puts the pixels of a pass's row, of that many bits each, into their places in a row of the whole picture. If a byte
// has several of them, the row must be zeros in their places.
void spread_png_row(const PngPass& pass, const std::uint8_t* row, int pixel_bits, std::uint8_t* to) noexcept {
    switch (pixel_bits) {
        case 8:
            return spread_bytes<1>(pass, row, to);
        case 16:
            return spread_bytes<2>(pass, row, to);
        case 24:
            return spread_bytes<3>(pass, row, to);
        case 32:
            return spread_bytes<4>(pass, row, to);
        case 48:
            return spread_bytes<6>(pass, row, to);
        case 64:
            return spread_bytes<8>(pass, row, to);
        default:
            return spread_bits(pass, row, static_cast<unsigned>(pixel_bits), to);
    }
}

// Samples of 1, 2, 4 or 8 bits, the first in the highest ones.
struct Samples {
    const std::uint8_t* row;
    std::size_t depth;

    std::size_t operator()(std::size_t x) const noexcept {
        const std::size_t bit = x * depth;
        return (row[bit / 8] >> (8 - depth - bit % 8)) & ((1U << depth) - 1);
    }
};

struct NarrowGrays {
    Samples samples;

    [[nodiscard]] std::uint8_t value(std::size_t sample) const noexcept {
        return static_cast<std::uint8_t>(sample * (0xffU / ((1U << samples.depth) - 1)));
    }

    PixelColor operator()(std::size_t x) const noexcept {
        const std::uint8_t gray = value(samples(x));
        return {gray, gray, gray};
    }
};

struct Indices {
    Samples samples;
    const std::uint8_t* palette;

    PixelColor operator()(std::size_t x) const noexcept {
        const std::uint8_t* const color = palette + 4 * samples(x);
        return {color[0], color[1], color[2]};
    }
};

// Samples of 8 or 16 bits from their order in the file to the machine's.
template <typename Sample>
Sample swapped(Sample sample) noexcept {
    if constexpr (sizeof(Sample) == 2 && std::endian::native == std::endian::little) {
        return static_cast<Sample>(sample << 8U | sample >> 8U);
    }
    return sample;
}

template <typename Sample>
Sample load_sample(const std::uint8_t* row, std::size_t index) noexcept {
    Sample sample = 0;
    std::memcpy(&sample, row + index * sizeof(Sample), sizeof(Sample));
    return swapped(sample);
}

template <typename Sample>
void store_sample(std::uint8_t* row, std::size_t index, Sample sample) noexcept {
    std::memcpy(row + index * sizeof(Sample), &sample, sizeof(Sample));
}

template <typename Sample>
void write_samples(const std::uint8_t* row, std::size_t count, std::uint8_t* to) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        store_sample(to, i, load_sample<Sample>(row, i));
    }
}

// The pixels of the transparent colour get an alpha of 0, the others the largest.
template <typename Sample, std::size_t kColors>
void write_with_alpha(const PngHeader& header, const std::uint8_t* row, std::size_t width, std::uint8_t* to) noexcept {
    for (std::size_t x = 0; x < width; ++x) {
        bool transparent = true;
        for (std::size_t i = 0; i < kColors; ++i) {
            const auto sample = load_sample<Sample>(row, kColors * x + i);
            transparent = transparent && sample == header.transparent_color[i];
            store_sample(to, (kColors + 1) * x + i, sample);
        }
        store_sample(to, (kColors + 1) * x + kColors, static_cast<Sample>(transparent ? 0 : ~0));
    }
}

void write_narrow(const PngHeader& header, const NarrowGrays& grays, std::size_t width, std::uint8_t* to) noexcept {
    const std::size_t step = header.transparent ? 2 : 1;
    for (std::size_t x = 0; x < width; ++x) {
        const std::size_t sample = grays.samples(x);
        to[step * x] = grays.value(sample);
        if (header.transparent) {
            to[step * x + 1] = sample == header.transparent_color[0] ? 0 : 0xff;
        }
    }
}

template <std::size_t kChannels>
void write_indexed(const PngHeader& header, const Samples& samples, std::size_t width, std::uint8_t* to) noexcept {
    for (std::size_t x = 0; x < width; ++x) {
        std::memcpy(to + kChannels * x, header.palette.data() + 4 * samples(x), kChannels);
    }
}

template <typename Sample>
void write_whole(const PngHeader& header, const std::uint8_t* row, std::size_t width, std::uint8_t* to) noexcept {
    if (!header.transparent) {
        return write_samples<Sample>(row, width * static_cast<std::size_t>(header.packed().channels), to);
    }
    return header.color == PngColor::kGray ? write_with_alpha<Sample, 1>(header, row, width, to)
                                           : write_with_alpha<Sample, 3>(header, row, width, to);
}

// Writes the pixels of a whole unfiltered row as header.packed() says.
void write_packed_png(const PngHeader& header, const std::uint8_t* row, std::uint8_t* to) noexcept {
    const auto width = static_cast<std::size_t>(header.size.width);
    const Samples samples{row, static_cast<std::size_t>(header.depth)};
    if (header.color == PngColor::kPalette) {
        return header.transparent ? write_indexed<4>(header, samples, width, to)
                                  : write_indexed<3>(header, samples, width, to);
    }
    if (header.depth < 8) {
        return write_narrow(header, {samples}, width, to);
    }
    return header.depth == 16 ? write_whole<std::uint16_t>(header, row, width, to)
                              : write_whole<std::uint8_t>(header, row, width, to);
}

// Writes `count` pixels of an unfiltered row, from column `left` on, as packed pixels of three bytes. Alpha is dropped,
// and of 16 bits the upper 8 are kept. Gray is Pillow's: ITU-R BT.601 in 16-bit integers.
void write_png_pixels(const PngHeader& header, const std::uint8_t* row, int left, int count, Channels channels,
                      std::uint8_t* to) noexcept {
    const auto first = static_cast<std::size_t>(left);
    const auto width = static_cast<std::size_t>(count);
    const bool wide = header.depth == 16;
    const Samples samples{row, static_cast<std::size_t>(header.depth)};
    switch (header.color) {
        case PngColor::kRgb:
            if (wide) {
                return write_colors(PackedColors<3, 2>{row}, first, width, channels, to);
            }
            if (channels == Channels::kRgb) {
                std::memcpy(to, row + 3 * first, 3 * width);
                return;
            }
            return write_colors(PackedColors<3, 1>{row}, first, width, channels, to);
        case PngColor::kRgba:
            return wide ? write_colors(PackedColors<4, 2>{row}, first, width, channels, to)
                        : write_colors(PackedColors<4, 1>{row}, first, width, channels, to);
        case PngColor::kGrayAlpha:
            return wide ? write_colors(PackedColors<2, 2>{row}, first, width, channels, to)
                        : write_colors(PackedColors<2, 1>{row}, first, width, channels, to);
        case PngColor::kPalette:
            return write_colors(Indices{samples, header.palette.data()}, first, width, channels, to);
        case PngColor::kGray:
            break;
    }
    if (header.depth < 8) {
        return write_colors(NarrowGrays{samples}, first, width, channels, to);
    }
    return wide ? write_colors(PackedColors<1, 2>{row}, first, width, channels, to)
                : write_colors(PackedColors<1, 1>{row}, first, width, channels, to);
}

// Writes ids: the samples of a row that has one for each pixel.
void write_png_ids(const PngHeader& header, const std::uint8_t* row, int left, int count, std::uint8_t* to) noexcept {
    const Samples samples{row, static_cast<std::size_t>(header.depth)};
    const auto first = static_cast<std::size_t>(left);
    const auto end = first + static_cast<std::size_t>(count);
    for (std::size_t x = first; x < end; ++x, to += 3) {
        put_id(header.depth == 16  ? load_sample<std::uint16_t>(row, x)
               : header.depth == 8 ? row[x]
                                   : static_cast<unsigned>(samples(x)),
               to);
    }
}

// The filters of the PNG specification (https://www.w3.org/TR/png-3/#9Filters).
constexpr std::uint8_t kPngFilters = 5;

// How many bytes after a row are read, and written back unchanged.
constexpr std::size_t kUnfilterSlack = 4;

// The numbers of the filters; 0 leaves a row unchanged.
constexpr std::uint8_t kSub = 1;
constexpr std::uint8_t kUp = 2;
constexpr std::uint8_t kAverage = 3;
constexpr std::uint8_t kPaeth = 4;

// Each predicts a byte from those to the left, above, and above to the left.
struct Sub {
    static int of(int left, int /*above*/, int /*corner*/) noexcept { return left; }
};

struct Average {
    static int of(int left, int above, int /*corner*/) noexcept { return (left + above) / 2; }
};

struct Paeth {
    static int of(int left, int above, int corner) noexcept {
        const int by_left = std::abs(above - corner);
        const int by_above = std::abs(left - corner);
        const int by_corner = std::abs(left + above - 2 * corner);
        if (by_left <= by_above && by_left <= by_corner) {
            return left;
        }
        return by_above <= by_corner ? above : corner;
    }
};

// A chain of dependencies for each byte of a pixel, which the processor follows side by side.
template <typename Predict, std::size_t kStep>
void predict(std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    std::array<int, kStep> left{};
    std::array<int, kStep> corner{};
    for (std::size_t at = 0; at + kStep <= size; at += kStep) {
        for (std::size_t i = 0; i < kStep; ++i) {
            const int up = above[at + i];
            left[i] = (row[at + i] + Predict::of(left[i], up, corner[i])) & 0xff;
            row[at + i] = static_cast<std::uint8_t>(left[i]);
            corner[i] = up;
        }
    }
}

#if defined(__SSE2__)

__m128i load(const std::uint8_t* from) noexcept {
    int four = 0;
    std::memcpy(&four, from, sizeof(four));
    return _mm_cvtsi32_si128(four);
}

template <std::size_t kStep>
void store(std::uint8_t* to, __m128i pixel) noexcept {
    const int four = _mm_cvtsi128_si32(pixel);
    std::memcpy(to, &four, kStep);
}

// Pixels of 3 or 4 bytes, one at a time: all bytes of a pixel in one register.
template <std::size_t kStep>
void sub_pixels(std::uint8_t* row, std::size_t size) noexcept {
    __m128i left = _mm_setzero_si128();
    for (std::size_t at = 0; at < size; at += kStep) {
        left = _mm_add_epi8(left, load(row + at));
        store<kStep>(row + at, left);
    }
}

template <std::size_t kStep>
void average_pixels(std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    const __m128i ones = _mm_set1_epi8(1);
    __m128i left = _mm_setzero_si128();
    for (std::size_t at = 0; at < size; at += kStep) {
        const __m128i up = load(above + at);
        // The instruction rounds up, the filter down.
        const __m128i odd = _mm_and_si128(_mm_xor_si128(left, up), ones);
        left = _mm_add_epi8(load(row + at), _mm_sub_epi8(_mm_avg_epu8(left, up), odd));
        store<kStep>(row + at, left);
    }
}

__m128i absolute(__m128i values) noexcept {
    return _mm_max_epi16(values, _mm_sub_epi16(_mm_setzero_si128(), values));
}

__m128i choose(__m128i mask, __m128i yes, __m128i no) noexcept {
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

template <std::size_t kStep>
void paeth_pixels(std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    const __m128i zero = _mm_setzero_si128();
    // 16 bits for each byte.
    __m128i left = zero;
    __m128i corner = zero;
    for (std::size_t at = 0; at < size; at += kStep) {
        const __m128i up = _mm_unpacklo_epi8(load(above + at), zero);
        const __m128i to_left = _mm_sub_epi16(up, corner);
        const __m128i to_above = _mm_sub_epi16(left, corner);
        const __m128i by_left = absolute(to_left);
        const __m128i by_above = absolute(to_above);
        const __m128i by_corner = absolute(_mm_add_epi16(to_left, to_above));
        const __m128i least = _mm_min_epi16(by_corner, _mm_min_epi16(by_left, by_above));
        const __m128i predicted =
            choose(_mm_cmpeq_epi16(least, by_left), left, choose(_mm_cmpeq_epi16(least, by_above), up, corner));
        // The upper halves stay zero: the sum is one of bytes.
        left = _mm_add_epi8(_mm_unpacklo_epi8(load(row + at), zero), predicted);
        store<kStep>(row + at, _mm_packus_epi16(left, left));
        corner = up;
    }
}

template <std::size_t kStep>
void pixels(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    switch (filter) {
        case kSub:
            return sub_pixels<kStep>(row, size);
        case kAverage:
            return average_pixels<kStep>(row, above, size);
        default:
            return paeth_pixels<kStep>(row, above, size);
    }
}

#endif

template <std::size_t kStep>
void bytes(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    switch (filter) {
        case kSub:
            return predict<Sub, kStep>(row, above, size);
        case kAverage:
            return predict<Average, kStep>(row, above, size);
        default:
            return predict<Paeth, kStep>(row, above, size);
    }
}

// Undoes the filter of a row in place. `above` is the row above, without its filter; for the first one it is zeros.
// `step` is the bytes of a pixel, at least 1.
void unfilter(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above, std::size_t size,
              std::size_t step) noexcept {
    if (filter == 0) {
        return;
    }
    if (filter == kUp) {
        for (std::size_t i = 0; i < size; ++i) {
            row[i] = static_cast<std::uint8_t>(row[i] + above[i]);
        }
        return;
    }
    switch (step) {
        case 1:
            return bytes<1>(filter, row, above, size);
        case 2:
            return bytes<2>(filter, row, above, size);
#if defined(__SSE2__)
        case 3:
            return pixels<3>(filter, row, above, size);
        case 4:
            return pixels<4>(filter, row, above, size);
#else
        case 3:
            return bytes<3>(filter, row, above, size);
        case 4:
            return bytes<4>(filter, row, above, size);
#endif
        case 6:
            return bytes<6>(filter, row, above, size);
        default:
            return bytes<8>(filter, row, above, size);
    }
}

// Decodes PNG: libdeflate inflates the whole picture, and each row is unfiltered and written while it is in the cache.
// The rows of an interlaced one are put together before. In an animation, this is the picture that every reader shows.
class PngDecoder final : public Decoder {
  public:
    [[nodiscard]] bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                               const DecodeOptions& decode) const noexcept override;
    [[nodiscard]] MemoryKind output() const noexcept override { return MemoryKind::kHost; }
    ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) override;
    void decode(const Region& region, Place& place) override;
    [[nodiscard]] bool packs(const EncodedImage& /*image*/) const noexcept override { return true; }
    void decode_whole(std::uint8_t* to, std::size_t row_bytes) override;
    void close() noexcept override;

  private:
    // Returns the compressed pixels: those in the file, or a copy if several chunks hold them. `cut_` says whether the
    // file ends after them.
    Bytes compressed();

    // Throws the error for compressed pixels that are damaged for this reason, or cut.
    [[noreturn]] void refuse(const std::string& reason) const;

    // Inflates the rows, each after the number of its filter.
    void inflate(std::size_t size);

    // Returns the bytes of a part of that many pixels, once inflated.
    [[nodiscard]] std::size_t inflated_bytes(Size size) const;

    // Undoes the filters of a part whose rows begin at `row`, and hands the number and the pixels of each to `use`,
    // down to `bottom`. Returns where the next row begins.
    template <typename Use>
    std::uint8_t* unfilter_rows(std::uint8_t* row, int width, int bottom, const Use& use);

    // Decodes the picture down to `bottom`, and hands the number and the unfiltered pixels of each row to `use`.
    template <typename Use>
    void decode_rows(int bottom, const Use& use);

    // Puts an interlaced picture together.
    void join_passes();

    Bytes bytes_;
    PngHeader header_;
    StoredIds ids_;
    bool cut_ = false;
    std::vector<std::uint8_t> joined_;
    AlignedBuffer rows_;   // A row of zeros, then the picture's.
    AlignedBuffer whole_;  // The rows of an interlaced picture.
};

// The most bytes that deflate makes of one.
constexpr std::size_t kMaxRatio = 1032;

void check_filter(std::uint8_t filter, int y) {
    if (filter >= kPngFilters) {
        refuse_png("row " + std::to_string(y) + " has the filter " + std::to_string(filter) + ", which does not exist");
    }
}

bool PngDecoder::accepts(const EncodedImage& image, const DemuxOptions& demux,
                         const DecodeOptions& decode) const noexcept {
    return image.packet == nullptr && !demux.need_ffmpeg() && !decode.need_ffmpeg() &&
           image_format(image.bytes) == ImageFormat::kPng;
}

ImageShape PngDecoder::open(const EncodedImage& image, const DemuxOptions& /*demux*/, const DecodeOptions& decode) {
    header_ = read_png_header(image.bytes);
    check_source_size(header_.size, "cannot decode the image: its size", decode.max_pixels);
    bytes_ = image.bytes;
    ids_ = {};
    if (decode.ids != IdSource::kNone && header_.color == PngColor::kPalette) {
        ids_ = {StoredIds::Kind::kIndices, header_.depth};
    } else if (decode.ids != IdSource::kNone && header_.color == PngColor::kGray) {
        ids_ = {StoredIds::Kind::kLevels, header_.depth};
    }
    return {.stored = header_.size,
            .orientation = {},
            .codec = "png",
            .pixel_format = header_.packed().name(),
            .ids = ids_};
}

void PngDecoder::close() noexcept {
    bytes_ = {};
    rows_.shrink();
    whole_.shrink();
    if (joined_.capacity() > kKeptBytes) {
        joined_ = {};
    }
}

Bytes PngDecoder::compressed() {
    joined_.clear();
    std::optional<PngChunk> chunk = read_png_chunk(bytes_, header_.pixels);
    const Bytes first = chunk->data;
    bool several = false;
    while (true) {
        check_png_chunk(*chunk);
        chunk = read_png_chunk(bytes_, chunk->end);
        if (!chunk || chunk->type != "IDAT") {
            cut_ = !chunk;
            return several ? Bytes(joined_) : first;
        }
        if (!several) {
            joined_.assign(first.begin(), first.end());
            several = true;
        }
        joined_.insert(joined_.end(), chunk->data.begin(), chunk->data.end());
    }
}

void PngDecoder::refuse(const std::string& reason) const {
    if (cut_) {
        throw MediaError("cannot decode the PNG: the data is truncated: its " + std::to_string(bytes_.size()) +
                         " bytes end before its picture does");
    }
    refuse_png(reason);
}

void PngDecoder::inflate(std::size_t size) {
    const Bytes from = compressed();
    if (size / kMaxRatio > from.size()) {
        refuse("its " + std::to_string(from.size()) + " compressed bytes cannot hold its picture");
    }
    const std::size_t zeros = header_.row_bytes(header_.size.width);
    std::size_t room = size;
    std::size_t made = 0;
    libdeflate_result result = LIBDEFLATE_INSUFFICIENT_SPACE;
    while (true) {
        rows_.reserve(zeros + room + kUnfilterSlack);
        std::size_t used = 0;
        result = libdeflate_zlib_decompress_ex(decompressor(), from.data(), from.size(), rows_.data() + zeros, room,
                                               &used, &made);
        if (result != LIBDEFLATE_INSUFFICIENT_SPACE || room >= size + kMaxMetadata) {
            break;
        }
        // Data after the pixels is ignored, as in Pillow.
        room = std::min(2 * room + kLargeBlock, size + kMaxMetadata);
    }
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
        refuse_png("it has many more pixels than it says");
    }
    if (result != LIBDEFLATE_SUCCESS) {
        refuse("its pixels cannot be inflated");
    }
    if (made < size) {
        refuse("it has fewer pixels than it says");
    }
    std::memset(rows_.data(), 0, zeros);
}

std::size_t PngDecoder::inflated_bytes(Size size) const {
    return (header_.row_bytes(size.width) + 1) * static_cast<std::size_t>(size.height);
}

template <typename Use>
std::uint8_t* PngDecoder::unfilter_rows(std::uint8_t* row, int width, int bottom, const Use& use) {
    const std::size_t bytes = header_.row_bytes(width);
    const std::size_t step = std::max<std::size_t>(1, static_cast<std::size_t>(header_.pixel_bits()) / 8);
    const std::uint8_t* above = rows_.data();
    for (int y = 0; y < bottom; ++y) {
        const std::uint8_t filter = *row++;
        check_filter(filter, y);
        unfilter(filter, row, above, bytes, step);
        use(y, row);
        above = row;
        row += bytes;
    }
    return row;
}

template <typename Use>
void PngDecoder::decode_rows(int bottom, const Use& use) {
    const std::size_t bytes = header_.row_bytes(header_.size.width);
    if (!header_.interlaced) {
        inflate(inflated_bytes(header_.size));
        const std::uint8_t* row = unfilter_rows(rows_.data() + bytes, header_.size.width, bottom, use);
        for (int y = bottom; y < header_.size.height; ++y, row += bytes + 1) {
            check_filter(*row, y);
        }
        return;
    }
    join_passes();
    const std::uint8_t* row = whole_.data();
    for (int y = 0; y < bottom; ++y, row += bytes) {
        use(y, row);
    }
}

void PngDecoder::join_passes() {
    const std::array passes = png_passes(header_.size);
    std::size_t inflated = 0;
    for (const PngPass& pass : passes) {
        inflated += pass.size.width == 0 ? 0 : inflated_bytes(pass.size);
    }
    inflate(inflated);
    const std::size_t bytes = header_.row_bytes(header_.size.width);
    const std::size_t size = bytes * static_cast<std::size_t>(header_.size.height);
    whole_.reserve(size);
    if (header_.pixel_bits() < 8) {
        std::memset(whole_.data(), 0, size);
    }
    std::uint8_t* from = rows_.data() + bytes;
    for (const PngPass& pass : passes) {
        from = unfilter_rows(from, pass.size.width, pass.size.height, [&](int y, const std::uint8_t* row) {
            spread_png_row(pass, row, header_.pixel_bits(),
                           whole_.data() + bytes * static_cast<std::size_t>(pass.top + y * pass.down));
        });
    }
}

void PngDecoder::decode(const Region& region, Place& place) {
    const Box& box = region.box;
    RowSink& sink = place.begin({box.size().width, 0});
    decode_rows(box.bottom, [&](int y, const std::uint8_t* row) {
        if (y >= box.top) {
            std::uint8_t* const to = sink.row(y - box.top);
            if (ids_.kind != StoredIds::Kind::kNone) {
                write_png_ids(header_, row, box.left, box.size().width, to);
            } else {
                write_png_pixels(header_, row, box.left, box.size().width, region.channels, to);
            }
            sink.commit(y - box.top, 1);
        }
    });
}

void PngDecoder::decode_whole(std::uint8_t* to, std::size_t row_bytes) {
    decode_rows(header_.size.height, [&](int y, const std::uint8_t* row) {
        write_packed_png(header_, row, to + row_bytes * static_cast<std::size_t>(y));
    });
}

}  // namespace

// Decodes PNG by libdeflate and our own filters.
extern const Backend libdeflate_backend;

const Backend libdeflate_backend{"libdeflate", "decodes PNG only, without FFmpeg's options", make_decoder<PngDecoder>};

}  // namespace spdl
