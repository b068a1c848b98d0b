#include "image/small/bmp_header.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/bounded_read.h"
#include "core/media_error.h"

namespace spdl {
namespace {

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
        fail("its size is said to be " + std::to_string(header.size.width) + "x" + std::to_string(header.size.height));
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

// Returns which byte the mask is; 4 if it is none.
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

}  // namespace

void refuse_bmp(const char* what) {
    fail(what);
}

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

}  // namespace spdl
