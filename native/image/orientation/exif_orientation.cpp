#include "image/orientation/exif_orientation.h"

#include <libdeflate.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "core/decompressor.h"
#include "core/file_parts.h"
#include "core/image_items.h"
#include "image/heic/heif.h"
#include "media/image_format.h"

namespace spdl {
namespace {

// Metadata of an image: bytes of its file, or what was made of them.
class MetadataBlock {
  public:
    MetadataBlock() = default;
    explicit MetadataBlock(Bytes viewed) : viewed_(viewed) {}
    explicit MetadataBlock(std::vector<std::uint8_t> made) : made_(std::move(made)) {}

    [[nodiscard]] Bytes bytes() const { return made_.empty() ? viewed_ : Bytes(made_); }

    void append(Bytes more) {
        if (made_.empty()) {
            made_.assign(viewed_.begin(), viewed_.end());
        }
        made_.insert(made_.end(), more.begin(), more.end());
    }

  private:
    Bytes viewed_;
    std::vector<std::uint8_t> made_;
};

// The metadata that may say how an image is turned. They are empty if none exist.
struct ImageMetadata {
    MetadataBlock exif;
    MetadataBlock xmp;
};

enum Type : std::uint32_t {
    kShort = 3,
    kLong = 4,
    kRational = 5,
    kSignedByte = 6,
    kSignedShort = 8,
    kSignedLong = 9,
    kSignedRational = 10,
    kFloat = 11,
    kDouble = 12,
    kDirectory = 13,
    kLong8 = 16,
};

constexpr std::string_view kExifName{"Exif\0\0", 6};  // Stands before EXIF data.

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// Returns the size of a value of a type; 0 if there is no such type.
std::size_t size_of(std::uint32_t type) {
    constexpr std::size_t kSizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
    return type < std::size(kSizes) ? kSizes[type] : 0;
}

double number(Bytes value, std::uint32_t type, const TiffLayout& layout) {
    const auto read = [&](std::size_t at, std::size_t size) {
        return static_cast<std::uint32_t>(layout.read(value, at, size));
    };
    const auto wide = [&] { return layout.read(value, 0, 8); };
    switch (type) {
        case kShort:
            return read(0, 2);
        case kLong:
        case kDirectory:
            return read(0, 4);
        case kSignedByte:
            return static_cast<std::int8_t>(read(0, 1));
        case kSignedShort:
            return static_cast<std::int16_t>(read(0, 2));
        case kSignedLong:
            return static_cast<std::int32_t>(read(0, 4));
        case kRational:
            return static_cast<double>(read(0, 4)) / read(4, 4);
        case kSignedRational:
            return static_cast<double>(static_cast<std::int32_t>(read(0, 4))) / static_cast<std::int32_t>(read(4, 4));
        case kFloat:
            return std::bit_cast<float>(read(0, 4));
        case kDouble:
            return std::bit_cast<double>(wide());
        case kLong8:
            return static_cast<double>(wide());
        default:
            return kNoNumber;
    }
}

// Returns the first number of an entry in the first directory of EXIF data, which are a TIFF file. It is not a number
// (NaN) if the entry has bytes or text, or if the data are not TIFF file. Returns nothing if there is no such entry.
// Damage counts as it does in Pillow: entries of unknown types, and those whose values take more than all the bytes,
// are left out; where values lie beyond the end, the directory ends.
std::optional<double> exif_value(Bytes exif, std::uint16_t tag) {
    // Some programs write the number in the header in the other order.
    const std::uint32_t magic = read_integer(exif, 2, 2, true);
    if (exif.size() < 8 || exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M')) {
        return kNoNumber;
    }
    const bool big = magic == 43 || magic == 43U << 8U;
    if (!big && magic != 42 && magic != 42U << 8U) {
        return kNoNumber;
    }
    const TiffLayout layout{exif[0] == 'I', big};
    const std::size_t entry_bytes = layout.entry_bytes();
    const std::size_t in_place = layout.offset_bytes();
    const std::uint64_t directory = layout.first_directory(exif);
    if (directory >= exif.size()) {
        return std::nullopt;
    }
    Bytes entries = tail(exif, directory + layout.count_bytes());
    std::size_t left = exif.size();  // For the values of all entries together.
    for (std::uint64_t i = layout.read(exif, directory, layout.count_bytes()); i > 0 && entries.size() >= entry_bytes;
         --i) {
        const Bytes entry = entries.first(entry_bytes);
        entries = entries.subspan(entry_bytes);
        const auto type = static_cast<std::uint32_t>(layout.read(entry, 2, 2));
        const std::uint64_t count = layout.read(entry, 4, in_place);
        const std::size_t size = size_of(type) * std::min<std::uint64_t>(count, exif.size() + 1);
        Bytes values = entry.subspan(4 + in_place);
        if (size == 0) {
            continue;
        }
        if (size > in_place) {
            if (size > left) {
                left = 0;
                continue;
            }
            left -= size;
            values = tail(exif, layout.read(entry, 4 + in_place, in_place));
            if (values.size() < size) {
                break;
            }
        }
        if (layout.read(entry, 0, 2) == tag) {
            return number(values, type, layout);
        }
    }
    return std::nullopt;
}

// Returns how an AVIF (or another file of its family) wants its main picture turned and mirrored, in EXIF's numbers:
// from 1 to 8, and 0 if it does not say.
unsigned avif_orientation(Bytes avif) {
    unsigned quarters = 0;  // Anticlockwise.
    bool mirrored = false;  // After the turn.
    bool left_to_right = false;
    for (const FileBox& property : primary_item(avif).properties) {
        if (property.content.empty()) {
            continue;
        }
        if (property.name == "irot") {
            quarters = property.content[0] & 3U;
        } else if (property.name == "imir") {
            mirrored = true;
            left_to_right = (property.content[0] & 1U) != 0;
        }
    }
    // For each number of quarters: unmirrored, mirrored top to bottom, mirrored left to right.
    static constexpr unsigned kNumbers[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};
    return kNumbers[quarters][mirrored ? (left_to_right ? 2 : 1) : 0];
}

constexpr std::size_t kSignature = 8;

// A text of a PNG. Only texts with these names are unpacked: others may be of any size.
constexpr std::string_view kXmpKeyword = "XML:com.adobe.xmp";
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

// Returns the text of an iTXt chunk, after its name.
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

// A chunk of text, after its name.
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

// Returns the bytes that ImageMagick wrote as text: three lines with what they are and how many, then the digits. Other
// text is returned unchanged, and is not EXIF data.
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

// Finds the metadata of a PNG in all places where Pillow looks for them: a chunk eXIf, or a text as ImageMagick writes
// it, and a text of XMP.
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
            } else if (name == kXmpKeyword) {
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

// Adds what a segment APP1 holds.
void add_segment(Bytes content, ImageMetadata& found) {
    constexpr std::string_view kXmp{"http://ns.adobe.com/xap/1.0/\0", 29};
    if (starts_with(content, kXmp)) {
        found.xmp = MetadataBlock(content.subspan(kXmp.size()));
    } else if (starts_with(content, kExifName)) {
        if (found.exif.bytes().empty()) {
            found.exif = MetadataBlock(content);
        } else {
            // Data that does not fit into one segment continues in the next.
            found.exif.append(content.subspan(kExifName.size()));
        }
    }
}

ImageMetadata jpeg_metadata(Bytes jpeg) {
    constexpr std::uint8_t kScan = 0xda;
    constexpr std::uint8_t kApp1 = 0xe1;
    ImageMetadata found;
    JpegSegments segments(jpeg);
    for (auto segment = segments.next(); segment && segment->marker != kScan; segment = segments.next()) {
        if (segment->marker == kApp1) {
            add_segment(segment->content, found);
        }
    }
    return found;
}

ImageMetadata webp_metadata(Bytes webp) {
    // The first chunk tells which others there are, and libwebp skips those that it does not mention.
    constexpr std::size_t kFlags = 20;
    constexpr std::uint32_t kHasExif = 8;
    constexpr std::uint32_t kHasXmp = 4;
    const bool has_chunks = starts_with(tail(webp, 12), "VP8X");
    const std::uint32_t flags = has_chunks ? read_integer(webp, kFlags, 1, true) : 0;
    ImageMetadata found;
    for (Bytes chunk = tail(webp, 12); chunk.size() >= 8;) {
        const std::size_t length = read_integer(chunk, 4, 4, true);
        if (length > chunk.size() - 8) {
            break;
        }
        const Bytes content = chunk.subspan(8, length);
        // The first of a kind counts.
        if (starts_with(chunk, "EXIF") && (flags & kHasExif) != 0 && found.exif.bytes().empty()) {
            found.exif = MetadataBlock(content);
        } else if (starts_with(chunk, "XMP ") && (flags & kHasXmp) != 0 && found.xmp.bytes().empty()) {
            found.xmp = MetadataBlock(content);
        }
        chunk = tail(chunk, 8 + length + length % 2);
    }
    return found;
}

ImageMetadata tiff_metadata(Bytes tiff) {
    constexpr std::uint16_t kXmp = 700;
    const std::optional<TiffDirectory> directory = TiffDirectory::first(tiff);
    return {MetadataBlock(tiff), MetadataBlock(directory ? directory->bytes(kXmp) : Bytes())};
}

// Finds the EXIF data and the XMP of an image, where Pillow does. EXIF data may begin with its name. A TIFF is its own
// EXIF data.
ImageMetadata image_metadata(Bytes image, ImageFormat format) {
    switch (format) {
        case ImageFormat::kJpeg:
            return jpeg_metadata(image);
        case ImageFormat::kPng:
            return png_metadata(image);
        case ImageFormat::kWebp:
            return webp_metadata(image);
        case ImageFormat::kTiff:
            return tiff_metadata(image);
        case ImageFormat::kAvif: {
            const ItemMetadata items = primary_metadata(image);
            return {MetadataBlock(items.exif), MetadataBlock(items.xmp)};
        }
        default:
            return {};
    }
}

constexpr std::uint16_t kOrientation = 0x0112;  // The tag.
constexpr unsigned kUnknown = 0;
constexpr unsigned kMost = 8;

std::string_view text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// EXIF data may follow a name, which some programs write twice. Returns nothing if they do not mention the orientation,
// and kUnknown if they make no sense.
std::optional<unsigned> exif_number(Bytes exif) {
    for (int i = 0; i < 2 && starts_with(exif, kExifName); ++i) {
        exif = exif.subspan(kExifName.size());
    }
    const std::optional<double> value = exif.empty() ? std::nullopt : exif_value(exif, kOrientation);
    if (!value) {
        return std::nullopt;
    }
    for (unsigned number = 1; number <= kMost; ++number) {
        if (*value == number) {
            return number;
        }
    }
    return kUnknown;
}

// Returns the first orientation in XMP: an attribute or an element of one digit.
unsigned xmp_number(Bytes xmp) {
    constexpr std::string_view kName = "tiff:Orientation";
    std::string_view rest = text(xmp);
    for (std::size_t at = rest.find(kName); at != std::string_view::npos; at = rest.find(kName)) {
        rest.remove_prefix(at + kName.size());
        const std::size_t digit = rest.starts_with("=\"") ? 2 : rest.starts_with('>') ? 1 : rest.size();
        if (digit < rest.size() && rest[digit] >= '0' && rest[digit] <= '9') {
            return static_cast<unsigned>(rest[digit] - '0');
        }
    }
    return kUnknown;
}

unsigned orientation_number(Bytes image, std::optional<std::uint64_t> page) {
    constexpr unsigned kUpright = 1;
    if (page) {
        const std::optional<TiffDirectory> directory = TiffDirectory::at(image, *page);
        return directory ? directory->integer(kOrientation).value_or(kUnknown) : kUnknown;
    }
    const ImageFormat format = image_format(image);
    if (format == ImageFormat::kAvif) {
        if (const unsigned number = avif_orientation(image); number > kUpright) {
            return number;
        }
    }
    const ImageMetadata metadata = image_metadata(image, format);
    if (const std::optional<unsigned> number = exif_number(metadata.exif.bytes())) {
        // The readers of an AVIF do not turn it as its EXIF data say.
        return format == ImageFormat::kAvif ? kUpright : *number;
    }
    return xmp_number(metadata.xmp.bytes());
}

}  // namespace

Orientation exif_orientation(Bytes image, std::optional<std::uint64_t> page) {
    if (image_format(image) == ImageFormat::kHeif) {
        return heif_orientation(image);  // Its readers do not turn it as its EXIF data say.
    }
    constexpr Orientation kOrientations[] = {{},
                                             {},
                                             {false, true, false},
                                             {false, true, true},
                                             {false, false, true},
                                             {true, false, false},
                                             {true, false, true},
                                             {true, true, true},
                                             {true, true, false}};
    const unsigned number = orientation_number(image, page);
    return number <= kMost ? kOrientations[number] : Orientation();
}

}  // namespace spdl
