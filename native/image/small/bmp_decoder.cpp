#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/geometry.h"
#include "media/decoder.h"

namespace spdl {
namespace {

enum class BmpKind {
    kIndices,  // Of 1, 4 or 8 bits.
    kRuns4,    // Run lengths of indices.
    kRuns8,
    k555,  // Pixels of 16 bits.
    k565,
    kBytes,  // Pixels of whole bytes.
};

// The description of the picture in a BMP.
struct BmpHeader {
    Size size;
    BmpKind kind = BmpKind::kBytes;
    bool top_down = false;
    std::size_t bits = 0;
    std::size_t pixels_at = 0;
    std::array<std::array<std::uint8_t, 3>, 256> colors{};  // Those that are not there are black.
    bool gray = false;                                      // The channels of all colours are equal.
    std::array<std::size_t, 4> order{2, 1, 0, 0};           // Where in a pixel red, green, blue and alpha lie.
    bool has_alpha = false;

    [[nodiscard]] bool has_runs() const { return kind == BmpKind::kRuns4 || kind == BmpKind::kRuns8; }

    // Rows begin at multiples of four bytes.
    [[nodiscard]] std::size_t row_bytes() const { return (static_cast<std::size_t>(size.width) * bits + 31) / 32 * 4; }
};

constexpr std::size_t kFileHeader = 14;
constexpr std::size_t kOldHeader = 12;
constexpr std::size_t kInfoHeader = 40;
constexpr std::size_t kOs2Header = 64;
constexpr std::size_t kHeaders[] = {kOldHeader, kInfoHeader, 52, 56, kOs2Header, 108, 124};
constexpr std::size_t kMasksAt = kFileHeader + kInfoHeader;
constexpr std::size_t kMaskBytes = 12;

enum Compression : std::uint32_t { kPlain = 0, kRunsOf8 = 1, kRunsOf4 = 2, kMasks = 3, kJpeg = 4, kPng = 5 };

[[noreturn]] void fail(const std::string& what) {
    throw MediaError("cannot decode the BMP: " + what);
}

// A side that no picture can have stays one: its size is refused.
int side(std::uint32_t value) {
    return static_cast<int>(std::min<std::uint32_t>(value, std::numeric_limits<int>::max()));
}

// The parts of the header that only its reading needs.
struct Fields {
    std::size_t header_size;
    std::uint32_t compression = kPlain;
    std::size_t colors = 0;
    std::size_t color_bytes = 4;
    std::size_t colors_at;
};

std::uint32_t number(Bytes bmp, std::size_t at, std::size_t size) {
    return read_integer(bmp, at, size, true);
}

Fields read_fields(Bytes bmp, BmpHeader& header) {
    const std::size_t size = number(bmp, kFileHeader, 4);
    if (!std::ranges::count(kHeaders, size)) {
        fail("its header is said to have " + std::to_string(size) + " bytes, as none that is known");
    }
    if (bmp.size() < kFileHeader + size) {
        fail("the data is truncated: its " + std::to_string(bmp.size()) + " bytes end before its header does");
    }
    Fields fields{.header_size = size, .colors_at = kFileHeader + size};
    if (size == kOldHeader) {
        header.size = {side(number(bmp, 18, 2)), side(number(bmp, 20, 2))};
        header.bits = number(bmp, 24, 2);
        fields.color_bytes = 3;
    } else {
        const std::uint32_t height = number(bmp, 22, 4);
        // Below zero for rows from the top on.
        header.top_down = height >> 24U == 0xff;
        header.size = {side(number(bmp, 18, 4)), side(header.top_down ? 0 - height : height)};
        header.bits = number(bmp, 28, 2);
        fields.compression = number(bmp, 30, 4);
        fields.colors = number(bmp, 46, 4);
        if (fields.compression == kMasks && size == kInfoHeader) {
            fields.colors_at += kMaskBytes;
        }
    }
    if (header.size.width == 0 || header.size.height == 0) {
        fail("its size is said to be " + dimensions(header.size));
    }
    if (fields.colors == 0 && header.bits <= 8) {
        fields.colors = std::size_t{1} << header.bits;
    }
    return fields;
}

void check_compression(const Fields& fields) {
    // The numbers of OS/2 are others.
    const bool os2 = fields.header_size == kOs2Header;
    const char* what = nullptr;
    switch (fields.compression) {
        case kPlain:
        case kRunsOf4:
        case kRunsOf8:
            return;
        case kMasks:
            if (!os2) {
                return;
            }
            what = "Huffman codes";
            break;
        case kJpeg:
            what = os2 ? "run lengths of 24 bits" : "a JPEG";
            break;
        case kPng:
            what = "a PNG";
            break;
        default:
            fail("its pixels are compressed in a way, " + std::to_string(fields.compression) + ", that is not read");
    }
    fail("its pixels are compressed as " + std::string(what) + ", which is not read in a BMP; store it as a PNG");
}

// Returns which byte the mask is; 4 if it is not a byte.
std::size_t byte_of(std::uint32_t mask) {
    std::size_t byte = 0;
    while (byte < 4 && mask != 0xffU << 8 * byte) {
        ++byte;
    }
    return byte;
}

void read_masks(Bytes bmp, const Fields& fields, BmpHeader& header) {
    constexpr std::size_t kWithAlpha = 56;
    std::array<std::uint32_t, 4> masks{};
    for (std::size_t i = 0; i < (fields.header_size >= kWithAlpha ? 4 : 3); ++i) {
        masks[i] = number(bmp, kMasksAt + 4 * i, 4);
    }
    const auto are = [&](std::uint32_t red, std::uint32_t green, std::uint32_t blue) {
        return masks[0] == red && masks[1] == green && masks[2] == blue;
    };
    if (header.bits == 16 && are(0xf800, 0x7e0, 0x1f)) {
        header.kind = BmpKind::k565;
        return;
    }
    if ((header.bits == 16 && are(0x7c00, 0x3e0, 0x1f)) || (header.bits == 24 && are(0xff0000, 0xff00, 0xff))) {
        return;
    }
    if (header.bits == 32 && are(0, 0, 0) && masks[3] == 0) {
        masks = {0xff0000, 0xff00, 0xff, 0xff000000};
    }
    std::array<std::size_t, 4> order{};
    std::ranges::transform(masks, order.begin(), byte_of);
    header.has_alpha = masks[3] != 0;
    const std::size_t channels = header.has_alpha ? 4 : 3;
    for (std::size_t i = 0; i < channels; ++i) {
        if (header.bits != 32 || order[i] == 4 || std::ranges::count(order, order[i]) != 1) {
            fail("its " + std::to_string(header.bits) +
                 " bits of a pixel are given to the colours in a way that is not read");
        }
    }
    header.order = order;
}

void read_colors(Bytes bmp, const Fields& fields, BmpHeader& header) {
    if (fields.colors > header.colors.size()) {
        fail("it is said to have " + std::to_string(fields.colors) + " colours");
    }
    header.gray = true;
    // Two levels are black and white.
    const std::size_t step = fields.colors == 2 ? 255 : 1;
    for (std::size_t i = 0; i < fields.colors; ++i) {
        const Bytes color = tail(bmp, fields.colors_at + fields.color_bytes * i);
        if (color.size() < fields.color_bytes) {
            header.gray = false;
            break;
        }
        for (std::size_t channel = 0; channel < 3; ++channel) {
            header.colors[i][channel] = color[2 - channel];
            header.gray = header.gray && color[channel] == i * step;
        }
    }
    if (!header.gray) {
        return;
    }
    // Levels that have no colour are what they say, too.
    header.colors[1].fill(fields.colors <= 2 ? 255 : 1);
    for (std::size_t i = std::max<std::size_t>(fields.colors, 2); i < header.colors.size(); ++i) {
        header.colors[i].fill(static_cast<std::uint8_t>(i));
    }
}

// Reads the headers that Pillow knows. Throws MediaError for others, and for pixels that it does not know.
BmpHeader read_bmp_header(Bytes bmp) {
    BmpHeader header;
    const Fields fields = read_fields(bmp, header);
    check_compression(fields);
    header.pixels_at = number(bmp, 10, 4);
    const std::size_t colors_end = fields.colors_at + (header.bits <= 8 ? fields.color_bytes * fields.colors : 0);
    if (header.pixels_at == 0 || (header.pixels_at == kFileHeader + fields.header_size && header.bits <= 8)) {
        // Some writers do not count the colours, or nothing.
        header.pixels_at = colors_end;
    }
    switch (header.bits) {
        case 1:
        case 4:
        case 8:
            header.kind = BmpKind::kIndices;
            read_colors(bmp, fields, header);
            break;
        case 16:
            header.kind = BmpKind::k555;
            break;
        case 24:
        case 32:
            break;
        default:
            fail("its pixels are said to have " + std::to_string(header.bits) + " bits");
    }
    if (fields.compression == kMasks) {
        read_masks(bmp, fields, header);
    } else if (fields.compression != kPlain) {
        if (header.kind != BmpKind::kIndices) {
            fail("run lengths of pixels of " + std::to_string(header.bits) + " bits are not read");
        }
        header.kind = fields.compression == kRunsOf4 ? BmpKind::kRuns4 : BmpKind::kRuns8;
    }
    return header;
}

// Makes indices of run lengths, one byte each.
class Runs {
  public:
    Runs(Bytes runs, const BmpHeader& header, std::uint8_t* to)
        : rest_(runs),
          four_bits_(header.kind == BmpKind::kRuns4),
          width_(static_cast<std::size_t>(header.size.width)),
          wanted_(width_ * static_cast<std::size_t>(header.size.height)),
          to_(to) {}

    // As Pillow: runs end with their row, pixels that are given one by one go on in the next, the end of a row leaves
    // none out, and what is skipped has the first colour.
    void decode() {
        while (made_ < wanted_) {
            const Bytes pair = take(2);
            const std::uint8_t what = pair[1];
            if (pair[0] > 0) {
                const std::size_t count = std::min<std::size_t>(pair[0], width_ - std::min(x_, width_));
                x_ += count;
                add(count, [&](std::size_t i) { return four_bits_ ? nibble(what, i) : what; });
            } else if (what == 0) {
                skip((width_ - made_ % width_) % width_);
                x_ = 0;
            } else if (what == 1) {
                fail("its run lengths end before its last row does");
            } else if (what == 2) {
                const Bytes skipped = take(2);
                skip(skipped[0] + skipped[1] * width_);
                x_ = made_ % width_;
            } else {
                add_pixels(what);
            }
        }
    }

  private:
    static std::uint8_t nibble(std::uint8_t byte, std::size_t i) {
        return static_cast<std::uint8_t>(i % 2 == 0 ? byte >> 4U : byte & 0xfU);
    }

    Bytes take(std::size_t count) {
        if (rest_.size() < count) {
            fail("the data is truncated: its run lengths end early");
        }
        const Bytes taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }

    template <typename Index>
    void add(std::size_t count, Index index) {
        count = std::min(count, wanted_ - made_);
        for (std::size_t i = 0; i < count; ++i) {
            to_[made_ + i] = index(i);
        }
        made_ += count;
    }

    void skip(std::size_t count) {
        count = std::min(count, wanted_ - made_);
        std::memset(to_ + made_, 0, count);
        made_ += count;
    }

    void add_pixels(std::size_t count) {
        const std::size_t clipped = std::min(count, wanted_ - made_);
        const std::size_t bytes = four_bits_ ? (clipped + 1) / 2 : clipped;
        const Bytes pixels = take(bytes);
        add(clipped, [&](std::size_t i) { return four_bits_ ? nibble(pixels[i / 2], i) : pixels[i]; });
        x_ += count;
        rest_ = tail(rest_, bytes % 2);
    }

    Bytes rest_;
    bool four_bits_;
    std::size_t width_;
    std::size_t wanted_;
    std::uint8_t* to_;
    std::size_t made_ = 0;
    std::size_t x_ = 0;  // How much of its row is filled, as far as the runs are concerned.
};

// Returns the index of the pixel in column `x`, the first in the highest bits.
std::uint8_t index_at(const std::uint8_t* row, std::size_t bits, std::size_t x) {
    const std::size_t bit = x * bits;
    return static_cast<std::uint8_t>((row[bit / 8] >> (8 - bits - bit % 8)) & ((1U << bits) - 1));
}

template <std::size_t kBits>
void write_indices(const BmpHeader& header, const std::uint8_t* row, std::uint8_t* to) {
    const auto width = static_cast<std::size_t>(header.size.width);
    if (kBits == 8 && header.gray && header.colors[1][0] == 1) {
        std::memcpy(to, row, width);
        return;
    }
    if (header.gray) {
        for (std::size_t x = 0; x < width; ++x) {
            to[x] = header.colors[index_at(row, kBits, x)][0];
        }
        return;
    }
    for (std::size_t x = 0; x < width; ++x) {
        std::memcpy(to + 3 * x, header.colors[index_at(row, kBits, x)].data(), 3);
    }
}

// Extends 5 or 6 bits to 8, as Pillow does.
template <unsigned kGreenBits>
void write_16_bits(const BmpHeader& header, const std::uint8_t* row, std::uint8_t* to) {
    constexpr unsigned kGreens = (1U << kGreenBits) - 1;
    const auto level = [](unsigned value, unsigned most) {
        return static_cast<std::uint8_t>((value & most) * 255 / most);
    };
    for (int x = 0; x < header.size.width; ++x, row += 2, to += 3) {
        const unsigned pixel = load_le<std::uint16_t>(row);
        to[0] = level(pixel >> (5 + kGreenBits), 31);
        to[1] = level(pixel >> 5U, kGreens);
        to[2] = level(pixel, 31);
    }
}

template <std::size_t kStep, std::size_t kChannels>
void write_bytes(const BmpHeader& header, const std::uint8_t* row, std::uint8_t* to) {
    const auto order = header.order;
    for (int x = 0; x < header.size.width; ++x, row += kStep, to += kChannels) {
        for (std::size_t channel = 0; channel < kChannels; ++channel) {
            to[channel] = row[order[channel]];
        }
    }
}

void write_row(const BmpHeader& header, const std::uint8_t* row, int channels, std::uint8_t* to) {
    switch (header.kind) {
        case BmpKind::kRuns4:
        case BmpKind::kRuns8:
            return write_indices<8>(header, row, to);
        case BmpKind::kIndices:
            return header.bits == 1   ? write_indices<1>(header, row, to)
                   : header.bits == 4 ? write_indices<4>(header, row, to)
                                      : write_indices<8>(header, row, to);
        case BmpKind::k555:
            return write_16_bits<5>(header, row, to);
        case BmpKind::k565:
            return write_16_bits<6>(header, row, to);
        case BmpKind::kBytes:
            return header.bits == 24 ? write_bytes<3, 3>(header, row, to)
                   : channels == 4   ? write_bytes<4, 4>(header, row, to)
                                     : write_bytes<4, 3>(header, row, to);
    }
}

// Decodes BMP as Pillow does.
class BmpDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kBmp; }

    PackedShape describe(Bytes bytes, std::int64_t /*max_pixels*/) override {
        header_ = read_bmp_header(bytes);
        bytes_ = bytes;
        return {header_.size, {header_.gray ? 1 : header_.has_alpha ? 4 : 3, 1}, "bmp"};
    }

    StoredIds show_ids() override {
        if (header_.bits > 8) {
            return {};
        }
        header_.gray = true;
        for (std::size_t index = 0; index < header_.colors.size(); ++index) {
            header_.colors[index].fill(static_cast<std::uint8_t>(index));
        }
        return {StoredIds::Kind::kIndices, 8};
    }

    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override {
        const auto [width, height] = region.box.size();
        const Bytes pixels = tail(bytes_, header_.pixels_at);
        const std::uint8_t* row = pixels.data();
        std::size_t step = header_.row_bytes();
        if (header_.has_runs()) {
            if (header_.pixels_at % 2 != 0) {
                fail("its run lengths begin at an odd byte, from which not all readers count");
            }
            step = static_cast<std::size_t>(width);
            indices_.reserve(step * static_cast<std::size_t>(height));
            Runs(pixels, header_, indices_.data()).decode();
            row = indices_.data();
        } else {
            // The last row need not be padded.
            const std::size_t last = (static_cast<std::size_t>(width) * header_.bits + 7) / 8;
            if (pixels.size() < step * (static_cast<std::size_t>(height) - 1) + last) {
                throw MediaError("cannot decode the BMP: the data is truncated: its " + std::to_string(bytes_.size()) +
                                 " bytes end before its picture does");
            }
        }
        for (int y = 0; y < height; ++y, row += step) {
            const int shown = header_.top_down ? y : height - 1 - y;
            write_row(header_, row, region.format.channels, to + row_bytes * static_cast<std::size_t>(shown));
        }
    }

    void forget() noexcept override {
        bytes_ = {};
        indices_.shrink();
    }

  private:
    Bytes bytes_;
    BmpHeader header_;
    AlignedBuffer indices_;  // Of run lengths.
};

}  // namespace

extern const Backend bmp_backend;
const Backend bmp_backend{"bmp", "decodes BMP only, without FFmpeg's options", make_decoder<BmpDecoder>};

}  // namespace spdl
