#include "image/png/png_header.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "core/bounded_read.h"
#include "core/media_error.h"
#include "core/png_chunk.h"

namespace spdl {
namespace {

// The signature, and the beginning of the header's chunk: its size and type.
constexpr std::string_view kBegin("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", 16);
constexpr std::size_t kSignature = 8;
constexpr std::size_t kHeaderEnd = 33;

// Where the fields of the header are.
constexpr std::size_t kWidth = 16;
constexpr std::size_t kHeight = 20;
constexpr std::size_t kDepth = 24;
constexpr std::size_t kColor = 25;
constexpr std::size_t kCompression = 26;
constexpr std::size_t kFilters = 27;
constexpr std::size_t kInterlace = 28;

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

std::uint32_t side(Bytes bytes, std::size_t at) noexcept {
    return read_integer(bytes, at, 4, false);
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

}  // namespace

int PngHeader::pixel_bits() const noexcept {
    return samples(color) * depth;
}

std::size_t PngHeader::row_bytes() const noexcept {
    return (static_cast<std::size_t>(size.width) * static_cast<std::size_t>(pixel_bits()) + 7) / 8;
}

const char* PngHeader::pixel_format() const noexcept {
    const bool wide = depth == 16;
    const bool alpha = transparent && color != PngColor::kPalette && depth >= 8;
    switch (color) {
        case PngColor::kPalette:
            return "pal8";
        case PngColor::kRgb:
            if (!alpha) {
                return wide ? "rgb48be" : "rgb24";
            }
            [[fallthrough]];
        case PngColor::kRgba:
            return wide ? "rgba64be" : "rgba";
        case PngColor::kGray:
            if (!alpha) {
                return wide ? "gray16be" : depth == 1 ? "monob" : "gray";
            }
            [[fallthrough]];
        case PngColor::kGrayAlpha:
            break;
    }
    return wide ? "ya16be" : "ya8";
}

bool is_plain_png(Bytes bytes) noexcept {
    return bytes.size() >= kHeaderEnd &&
           std::equal(kBegin.begin(), kBegin.end(), bytes.begin(),
                      [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }) &&
           has_depth(bytes[kColor], bytes[kDepth]) && bytes[kCompression] == 0 && bytes[kFilters] == 0 &&
           bytes[kInterlace] == 0 && side(bytes, kWidth) > 0 && side(bytes, kWidth) <= INT32_MAX &&
           side(bytes, kHeight) > 0 && side(bytes, kHeight) <= INT32_MAX;
}

PngHeader read_png_header(Bytes bytes) {
    PngHeader header;
    header.size = {static_cast<int>(side(bytes, kWidth)), static_cast<int>(side(bytes, kHeight))};
    header.depth = bytes[kDepth];
    header.color = static_cast<PngColor>(bytes[kColor]);
    bool has_palette = false;
    std::size_t at = kSignature;
    while (true) {
        const std::optional<PngChunk> chunk = read_png_chunk(bytes, at);
        if (chunk && chunk->type == "IDAT") {
            break;
        }
        if (!chunk) {
            throw MediaError("cannot decode the PNG: the data is truncated: its " + std::to_string(bytes.size()) +
                             " bytes end before its picture begins");
        }
        check_png_chunk(*chunk);
        if (chunk->type == "IEND") {
            refuse_png("it has no pixels");
        }
        if (chunk->type == "PLTE") {
            // As in Pillow, colours that are missing are black, and those too many are left out.
            std::ranges::copy(chunk->data.first(std::min(chunk->data.size(), header.palette.size())),
                              header.palette.begin());
            has_palette = true;
        }
        header.transparent = header.transparent || chunk->type == "tRNS";
        at = chunk->end;
    }
    if (header.color == PngColor::kPalette && !has_palette) {
        refuse_png("it has no palette");
    }
    header.pixels = at;
    return header;
}

}  // namespace spdl
