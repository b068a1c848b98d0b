#include "image/orientation/png_metadata.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/bounded_read.h"
#include "core/decompressor.h"
#include "core/png_chunk.h"

namespace spdl {
namespace {

constexpr std::size_t kSignature = 8;

// A text of a PNG. Only those of these names are unpacked: others may be of any size.
constexpr std::string_view kXmp = "XML:com.adobe.xmp";
constexpr std::string_view kProfile = "Raw profile type exif";

// Pillow refuses PNGs with longer texts.
constexpr std::size_t kMaxText = std::size_t{1} << 20U;

// Deflate makes no more than this of a byte.
constexpr std::size_t kMaxRatio = 1032;

MetadataBlock inflated(Bytes compressed) {
    std::vector<std::uint8_t> text(std::min(kMaxText / kMaxRatio, compressed.size()) * kMaxRatio);
    std::size_t size = 0;
    const libdeflate_result result = libdeflate_zlib_decompress(decompressor(), compressed.data(), compressed.size(),
                                                                text.data(), text.size(), &size);
    text.resize(result == LIBDEFLATE_SUCCESS ? size : 0);
    return MetadataBlock(std::move(text));
}

// Takes off what stands before the next null character, and that.
std::optional<std::string_view> take_word(Bytes& bytes) {
    const auto end = std::ranges::find(bytes, std::uint8_t{0});
    if (end == bytes.end()) {
        return std::nullopt;
    }
    const auto size = static_cast<std::size_t>(end - bytes.begin());
    const std::string_view word(reinterpret_cast<const char*>(bytes.data()), size);
    bytes = bytes.subspan(size + 1);
    return word;
}

// Returns the text of an iTXt chunk, behind its name.
MetadataBlock international_text(Bytes rest) {
    const std::uint32_t compressed = read_integer(rest, 0, 1, false);
    const std::uint32_t method = read_integer(rest, 1, 1, false);
    rest = tail(rest, 2);
    if (!take_word(rest) || !take_word(rest) ||
        (compressed != 0 && method != 0)) {  // The language, and the name in it.
        return {};
    }
    return compressed != 0 ? inflated(rest) : MetadataBlock(rest);
}

// A chunk of text, behind its name.
struct Text {
    std::string_view type;
    Bytes rest;
};

MetadataBlock unpacked(const Text& text) {
    if (text.type == "tEXt") {
        return MetadataBlock(text.rest);
    }
    // The number of the method comes first.
    return text.type == "zTXt" ? inflated(tail(text.rest, 1)) : international_text(text.rest);
}

int hex_digit(std::uint8_t character) {
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    const int letter = character | 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

// Returns the bytes that ImageMagick wrote as text: three lines with what they are and how many, then the digits. Text
// that is none of that is returned as it is, and is no EXIF data either.
MetadataBlock from_digits(MetadataBlock text) {
    constexpr int kHeadLines = 3;
    Bytes rest = text.bytes();
    for (int line = 0; line < kHeadLines; ++line) {
        const auto end = std::ranges::find(rest, std::uint8_t{'\n'});
        rest = tail(rest, static_cast<std::size_t>(end - rest.begin()) + 1);
    }
    std::vector<std::uint8_t> bytes;
    bytes.reserve(rest.size() / 2);
    int high = -1;
    for (const std::uint8_t character : rest) {
        const int digit = hex_digit(character);
        const bool space = character == ' ' || (character >= '\t' && character <= '\r');
        if (digit < 0 && (!space || high >= 0)) {
            return text;
        }
        if (digit >= 0 && high >= 0) {
            bytes.push_back(static_cast<std::uint8_t>(high * 16 + digit));
        }
        high = digit >= 0 && high < 0 ? digit : -1;
    }
    return high >= 0 ? text : MetadataBlock(std::move(bytes));
}

}  // namespace

ImageMetadata png_metadata(Bytes png) {
    ImageMetadata found;
    // The last one of a name counts, and no other is unpacked.
    std::optional<Text> profile;
    std::optional<Text> xmp;
    bool has_exif = false;
    for (auto chunk = read_png_chunk(png, kSignature); chunk && chunk->complete && chunk->type != "IEND";
         chunk = read_png_chunk(png, chunk->end)) {
        if (chunk->type == "eXIf") {
            found.exif = MetadataBlock(chunk->data);
            has_exif = true;
        } else if (chunk->type == "tEXt" || chunk->type == "zTXt" || chunk->type == "iTXt") {
            Bytes rest = chunk->data;
            const std::optional<std::string_view> name = take_word(rest);
            if (name == kProfile) {
                profile = {chunk->type, rest};
            } else if (name == kXmp) {
                xmp = {chunk->type, rest};
            }
        }
    }
    if (!has_exif && profile) {
        found.exif = from_digits(unpacked(*profile));
    }
    if (xmp) {
        found.xmp = unpacked(*xmp);
    }
    return found;
}

}  // namespace spdl
