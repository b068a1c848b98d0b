#include "image/png/png_header.h"

#include <optional>
#include <string>

#include "core/errors.h"
#include "core/file_parts.h"

namespace spdl {
namespace {

constexpr std::size_t kSignature = 8;
constexpr std::size_t kHeaderBytes = 13;

// The place of the fields of the header.
constexpr std::size_t kWidth = 0;
constexpr std::size_t kHeight = 4;
constexpr std::size_t kDepth = 8;
constexpr std::size_t kColor = 9;
constexpr std::size_t kCompression = 10;
constexpr std::size_t kFilters = 11;
constexpr std::size_t kInterlace = 12;

constexpr std::uint8_t kOpaque = 0xff;

bool has_depth(std::uint8_t color, std::uint8_t depth) noexcept {
    switch (static_cast<PngColor>(color)) {
        case PngColor::kGray:
            return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
        case PngColor::kPalette:
            return depth == 1 || depth == 2 || depth == 4 || depth == 8;
        case PngColor::kRgb:
        case PngColor::kGrayAlpha:
        case PngColor::kRgba:
            return depth == 8 || depth == 16;
    }
    return false;
}

int samples(PngColor color) noexcept {
    switch (color) {
        case PngColor::kGrayAlpha:
            return 2;
        case PngColor::kRgb:
            return 3;
        case PngColor::kRgba:
            return 4;
        case PngColor::kGray:
        case PngColor::kPalette:
            break;
    }
    return 1;
}

int side(Bytes data, std::size_t at) {
    const std::uint32_t value = read_integer(data, at, 4, false);
    if (value == 0 || value > INT32_MAX) {
        refuse_png("one of its sides is said to be of " + std::to_string(value) + " pixels");
    }
    return static_cast<int>(value);
}

// `most` is the largest that the specification knows.
std::uint8_t method(Bytes data, std::size_t at, std::uint8_t most, const char* what) {
    if (data[at] > most) {
        refuse_png(what + std::to_string(data[at]));
    }
    return data[at];
}

PngHeader read_fields(const PngChunk& chunk) {
    if (chunk.type != "IHDR") {
        refuse_png("it does not begin with a chunk IHDR but with " + std::string(chunk.type));
    }
    const Bytes data = chunk.data;
    if (data.size() != kHeaderBytes) {
        refuse_png("its chunk IHDR has " + std::to_string(data.size()) + " bytes instead of 13");
    }
    PngHeader header;
    header.size = {side(data, kWidth), side(data, kHeight)};
    if (!has_depth(data[kColor], data[kDepth])) {
        refuse_png("there is no colour type " + std::to_string(data[kColor]) + " of " + std::to_string(data[kDepth]) +
                   " bits");
    }
    header.depth = data[kDepth];
    header.color = static_cast<PngColor>(data[kColor]);
    method(data, kCompression, 0, "its pixels are compressed by the unknown method ");
    method(data, kFilters, 0, "its pixels are filtered by the unknown method ");
    header.interlaced = method(data, kInterlace, 1, "its pixels are interlaced by the unknown method ") != 0;
    for (std::size_t i = 0; i < PngHeader::kMaxColors; ++i) {
        header.palette[4 * i + 3] = kOpaque;
    }
    return header;
}

// As in Pillow, colours that are missing are black, those too many are left out, and the last palette counts.
void read_palette(Bytes data, PngHeader& header) {
    for (std::size_t i = 0; i < PngHeader::kMaxColors; ++i) {
        for (std::size_t channel = 0; channel < 3; ++channel) {
            header.palette[4 * i + channel] = 3 * i + 3 <= data.size() ? data[3 * i + channel] : 0;
        }
    }
}

void read_transparency(Bytes data, PngHeader& header) {
    if (header.color == PngColor::kPalette) {
        for (std::size_t i = 0; i < PngHeader::kMaxColors; ++i) {
            header.palette[4 * i + 3] = i < data.size() ? data[i] : kOpaque;
        }
        header.transparent = true;
    } else if (header.color == PngColor::kGray || header.color == PngColor::kRgb) {
        const auto colors = static_cast<std::size_t>(samples(header.color));
        if (data.size() < 2 * colors) {
            refuse_png("its chunk tRNS has " + std::to_string(data.size()) + " bytes instead of " +
                       std::to_string(2 * colors));
        }
        for (std::size_t i = 0; i < colors; ++i) {
            // Bits above a sample's do not count.
            const std::uint32_t mask = (1U << static_cast<unsigned>(header.depth)) - 1;
            header.transparent_color[i] = static_cast<std::uint16_t>(read_integer(data, 2 * i, 2, false) & mask);
        }
        header.transparent = true;
    }
}

}  // namespace

int PngHeader::pixel_bits() const noexcept {
    return samples(color) * depth;
}

std::size_t PngHeader::row_bytes(int width) const noexcept {
    return (static_cast<std::size_t>(width) * static_cast<std::size_t>(pixel_bits()) + 7) / 8;
}

PackedFormat PngHeader::packed() const noexcept {
    return {(color == PngColor::kPalette ? 3 : samples(color)) + (transparent ? 1 : 0), depth == 16 ? 2 : 1};
}

PngHeader read_png_header(Bytes bytes) {
    std::optional<PngHeader> header;
    bool has_palette = false;
    std::size_t at = kSignature;
    while (true) {
        const std::optional<PngChunk> chunk = read_png_chunk(bytes, at);
        if (chunk && header && chunk->type == "IDAT") {
            break;
        }
        if (!chunk) {
            throw MediaError("cannot decode the PNG: the data is truncated: its " + std::to_string(bytes.size()) +
                             " bytes end before its picture begins");
        }
        check_png_chunk(*chunk);
        if (!header) {
            header = read_fields(*chunk);
        } else if (chunk->type == "IEND") {
            refuse_png("it has no pixels");
        } else if (chunk->type == "IHDR") {
            refuse_png("it has two chunks IHDR");
        } else if (chunk->type == "PLTE") {
            read_palette(chunk->data, *header);
            has_palette = true;
        } else if (chunk->type == "tRNS") {
            read_transparency(chunk->data, *header);
        }
        at = chunk->end;
    }
    if (header->color == PngColor::kPalette && !has_palette) {
        refuse_png("it has no palette");
    }
    header->pixels = at;
    return *header;
}

}  // namespace spdl
