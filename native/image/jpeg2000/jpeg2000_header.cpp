#include "image/jpeg2000/jpeg2000_header.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/errors.h"
#include "core/image_items.h"

namespace spdl {
namespace {

// Markers of ISO/IEC 15444-1.
constexpr std::uint32_t kStart = 0xff4f;
constexpr std::uint32_t kSize = 0xff51;
constexpr std::uint32_t kCodingStyle = 0xff52;
constexpr std::uint32_t kCodingStyleOfComponent = 0xff53;
constexpr std::uint32_t kTilePart = 0xff90;
constexpr std::uint32_t kData = 0xff93;
constexpr std::uint32_t kEnd = 0xffd9;
constexpr std::uint32_t kFirstMarker = 0xff00;

constexpr std::size_t kTilePartHeader = 12;
constexpr std::size_t kSmallestTile = kTilePartHeader + 2;

constexpr int kMostLevels = 32;
constexpr int kMostApart = 4;  // Of the samples of chroma.
constexpr std::int64_t kMostSide = std::int64_t{1} << 30;

std::uint32_t number(Bytes bytes, std::size_t at, std::size_t size) {
    return read_integer(bytes, at, size, false);
}

int bits_of(std::uint32_t byte) {
    return static_cast<int>(byte & 0x7fU) + 1;
}

// Returns the code within the boxes of a file and all that follows, since the size of its box need not be right.
Bytes code_in(Bytes file) {
    constexpr std::uint32_t kCode = 0x6a703263;  // "jp2c"
    while (file.size() >= 8) {
        if (number(file, 4, 4) == kCode) {
            return tail(file, number(file, 0, 4) == 1 ? 16 : 8);
        }
        if (!take_box(file)) {
            break;
        }
    }
    refuse_jpeg2000("there is no picture in it, or one of its boxes is truncated");
}

// The segment of a header that a marker begins, without the marker.
struct Segment {
    std::uint32_t marker;
    Bytes content;
};

// Takes off a segment; nothing where the marker has none, or the bytes end.
std::optional<Segment> take_segment(Bytes& code) {
    const std::uint32_t marker = number(code, 0, 2);
    const std::size_t size = number(code, 2, 2);
    if (marker < kFirstMarker || marker == kTilePart || marker == kData || size < 2 || size + 2 > code.size()) {
        return std::nullopt;
    }
    const Segment segment{marker, code.subspan(2, size)};
    code = code.subspan(size + 2);
    return segment;
}

// The segment of a marker that says how components are coded; nothing of others.
void read_coding(const Segment& segment, int components, Jpeg2000Header& header) {
    constexpr std::int64_t kFew = 1 << 16;
    constexpr std::int64_t kFewPackets = 1 << 20;
    constexpr std::int64_t kLeastSamples = 64;  // In each block on average; usual are thousands.
    if (segment.marker != kCodingStyle && segment.marker != kCodingStyleOfComponent) {
        return;
    }
    const bool all = segment.marker == kCodingStyle;
    const std::size_t style = all ? 2 : 3;
    const Bytes coding = tail(segment.content, all ? 7 : 4);
    if (all) {
        header.layers = std::max(header.layers, number(segment.content, 4, 2));
    }
    const bool has_precincts = (number(segment.content, style, 1) & 1U) != 0;
    const int levels = std::min(static_cast<int>(number(coding, 0, 1)), kMostLevels);
    header.halvings = std::min(header.halvings, levels);
    const Size size = header.place.size();
    std::int64_t blocks = 0;
    for (int level = 0; level <= levels; ++level) {
        // Exponents, for either direction.
        const std::uint32_t precinct = has_precincts ? number(coding, 5 + static_cast<std::size_t>(level), 1) : 0xffU;
        const auto along = [&](int side, std::uint32_t block, std::uint32_t most) {
            const std::uint32_t exponent = std::min(block + 2, level == 0 || most == 0 ? most : most - 1);
            return ((std::int64_t{side} >> (levels - level)) >> exponent) + 1;
        };
        blocks += along(size.width, number(coding, 1, 1) & 0xfU, precinct & 0xfU) *
                  along(size.height, number(coding, 2, 1) & 0xfU, precinct >> 4U) * components;
    }
    const std::int64_t samples = std::int64_t{size.width} * size.height * components;
    if (blocks > kFew && blocks > samples / kLeastSamples) {
        refuse_jpeg2000("it is divided into " + std::to_string(blocks) + " blocks, which are too many for its " +
                        std::to_string(samples) + " samples");
    }
    // Each block is looked for in each layer.
    const std::int64_t packets = blocks * std::int64_t{header.layers};
    if (packets > kFewPackets && packets > samples) {
        refuse_jpeg2000("its " + std::to_string(blocks) + " blocks lie in " + std::to_string(header.layers) +
                        " layers, which are too many for its " + std::to_string(samples) + " samples");
    }
}

void check_channels(const Jpeg2000Header& header) {
    if (header.channels < 1 || header.channels > 4) {
        refuse_jpeg2000("it has " + std::to_string(header.channels) + " channels, and 1 to 4 are read");
    }
}

// Returns the number of tiles.
std::size_t read_size(Bytes segment, Jpeg2000Header& header) {
    const auto field = [&](std::size_t at) { return std::int64_t{number(segment, at, 4)}; };
    const std::int64_t right = field(4);
    const std::int64_t bottom = field(8);
    const std::int64_t left = field(12);
    const std::int64_t top = field(16);
    if (left >= right || top >= bottom || right > kMostSide || bottom > kMostSide) {
        refuse_jpeg2000("its header names a picture from (" + std::to_string(left) + ", " + std::to_string(top) +
                        ") to (" + std::to_string(right) + ", " + std::to_string(bottom) + ")");
    }
    header.place = {static_cast<int>(left), static_cast<int>(top), static_cast<int>(right), static_cast<int>(bottom)};
    header.channels = static_cast<int>(number(segment, 36, 2));
    check_channels(header);
    Size luma;
    Size chroma;
    for (int channel = 0; channel < header.channels; ++channel) {
        const Bytes described = tail(segment, 38 + 3 * static_cast<std::size_t>(channel));
        header.bits = std::max(header.bits, bits_of(number(described, 0, 1)));
        const Size apart{static_cast<int>(number(described, 1, 1)), static_cast<int>(number(described, 2, 1))};
        if (channel < 2) {
            (channel == 0 ? luma : chroma) = apart;
        }
        // Luma and alpha have all samples and chroma's are alike, or all of them are.
        const bool fits = apart == (channel == 1 || channel == 2 ? chroma : luma);
        if (!fits || (luma != Size{1, 1} && apart != luma) || apart.width < 1 || apart.height < 1 ||
            apart.width > kMostApart || apart.height > kMostApart) {
            refuse_jpeg2000("its channels have numbers of samples that do not fit each other");
        }
    }
    const auto along = [&](std::int64_t end, std::int64_t begin, std::int64_t tile, std::int64_t first) {
        if (tile <= 0 || first > begin || first + tile <= begin) {
            refuse_jpeg2000("its tiles do not cover the picture");
        }
        return (end - first + tile - 1) / tile;
    };
    const std::int64_t tiles = along(right, left, field(20), field(28)) * along(bottom, top, field(24), field(32));
    // OpenJPEG takes kilobytes for each before it decodes any.
    constexpr std::int64_t kFewTiles = 4096;
    constexpr std::int64_t kLeastTileSamples = 64;
    if (tiles > kFewTiles && tiles > (right - left) * (bottom - top) / kLeastTileSamples) {
        refuse_jpeg2000("it is divided into " + std::to_string(tiles) + " tiles, which are too many for its size");
    }
    return static_cast<std::size_t>(tiles);
}

// Throws if the header of the boxes does not match the code's.
void check_boxes(Bytes image, Bytes size, const Jpeg2000Header& header) {
    constexpr std::uint32_t kVarying = 255;
    const Size picture = header.place.size();
    const std::uint32_t depth = number(image, 10, 1);
    bool same = number(image, 0, 4) == static_cast<std::uint32_t>(picture.height) &&
                number(image, 4, 4) == static_cast<std::uint32_t>(picture.width) &&
                number(image, 8, 2) == static_cast<std::uint32_t>(header.channels);
    for (int channel = 0; channel < header.channels && depth != kVarying; ++channel) {
        const std::uint32_t stored = number(size, 38 + 3 * static_cast<std::size_t>(channel), 1);
        // Less one, which FFmpeg's encoder forgets.
        same = same && (depth == stored || depth == stored + 1);
    }
    if (!same) {
        refuse_jpeg2000("its header is not that of its picture");
    }
}

// A palette's channels take the place of the samples, which are indices.
void read_palette(Bytes boxes, Jpeg2000Header& header) {
    const Bytes palette = find_box(boxes, "pclr");
    if (palette.empty() || find_box(boxes, "cmap").empty()) {
        return;
    }
    header.channels = static_cast<int>(number(palette, 2, 1));
    check_channels(header);
    header.bits = 0;
    for (int channel = 0; channel < header.channels; ++channel) {
        header.bits = std::max(header.bits, bits_of(number(palette, 3 + static_cast<std::size_t>(channel), 1)));
    }
}

// Follows the parts of tiles to the end: OpenJPEG does without it, and without tiles or parts of them.
void check_tiles(Bytes code, std::size_t count, int components, Jpeg2000Header& header) {
    struct Parts {
        std::uint32_t found = 0;
        std::uint32_t named = 0;
    };
    std::vector<Parts> tiles(count);
    while (number(code, 0, 2) == kTilePart) {
        const std::size_t tile = number(code, 4, 2);
        std::size_t size = number(code, 6, 4);
        if (size == 0) {  // All but the end.
            size = code.size() - std::min<std::size_t>(code.size(), 2);
        }
        if (tile >= count || size < kTilePartHeader || size > code.size()) {
            refuse_jpeg2000("a part of tile " + std::to_string(tile + 1) + " of " + std::to_string(count) +
                            " is said to have " + std::to_string(size) + " bytes of " + std::to_string(code.size()));
        }
        ++tiles[tile].found;
        tiles[tile].named = std::max(tiles[tile].named, number(code, 11, 1));
        Bytes rest = code.subspan(kTilePartHeader, size - kTilePartHeader);
        while (const auto segment = take_segment(rest)) {
            read_coding(*segment, components, header);
        }
        code = code.subspan(size);
    }
    const auto missing =
        std::ranges::count_if(tiles, [](const Parts& parts) { return parts.found == 0 || parts.found < parts.named; });
    if (missing != 0) {
        refuse_jpeg2000("of its " + std::to_string(count) + " tiles " + std::to_string(missing) +
                        " are missing or not whole");
    }
    if (number(code, 0, 2) != kEnd) {
        refuse_jpeg2000("its end is missing, or its tiles do not follow each other");
    }
}

}  // namespace

void refuse_jpeg2000(const std::string& reason) {
    throw MediaError("cannot decode the JPEG 2000: " + reason);
}

Jpeg2000Header read_jpeg2000_header(Bytes file) {
    Jpeg2000Header header;
    header.has_boxes = number(file, 0, 2) != kStart;
    Bytes code = header.has_boxes ? code_in(file) : file;
    const bool starts = number(code, 0, 2) == kStart;
    code = tail(code, 2);
    const auto size = take_segment(code);
    if (!starts || !size || size->marker != kSize) {
        refuse_jpeg2000("its code does not begin as one");
    }
    const std::size_t tiles = read_size(size->content, header);
    if (tiles > file.size() / kSmallestTile) {
        refuse_jpeg2000("it claims " + std::to_string(tiles) + " tiles, more than its " + std::to_string(file.size()) +
                        " bytes can hold");
    }
    const int components = header.channels;
    if (header.has_boxes) {
        const Bytes boxes = find_box(file, "jp2h");
        check_boxes(find_box(boxes, "ihdr"), size->content, header);
        read_palette(boxes, header);
    }
    while (const auto segment = take_segment(code)) {
        read_coding(*segment, components, header);
    }
    check_tiles(code, tiles, components, header);
    return header;
}

}  // namespace spdl
