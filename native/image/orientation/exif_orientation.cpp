#include "image/orientation/exif_orientation.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "image/heic/item_view.h"
#include "image/orientation/avif_orientation.h"
#include "image/orientation/exif_value.h"
#include "image/orientation/image_metadata.h"

namespace spdl {
namespace {

constexpr unsigned kUnknown = 0;
constexpr unsigned kMost = 8;

std::string_view text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// EXIF data may follow a name, which some programs write twice. Returns nothing if they do not mention the orientation,
// and kUnknown if they make no sense.
std::optional<unsigned> exif_number(Bytes exif) {
    constexpr std::string_view kName{"Exif\0\0", 6};
    constexpr std::uint16_t kOrientation = 0x0112;
    for (int i = 0; i < 2 && text(exif).starts_with(kName); ++i) {
        exif = exif.subspan(kName.size());
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

unsigned orientation_number(Bytes image) {
    constexpr unsigned kUpright = 1;
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

Orientation exif_orientation(Bytes image) {
    if (image_format(image) == ImageFormat::kHeif) {
        return heif_orientation(image);  // Its readers do not turn it as its EXIF data say.
    }
    switch (orientation_number(image)) {
        case 2:
            return {false, true, false};
        case 3:
            return {false, true, true};
        case 4:
            return {false, false, true};
        case 5:
            return {true, false, false};
        case 6:
            return {true, false, true};
        case 7:
            return {true, true, true};
        case 8:
            return {true, true, false};
        default:
            return {};
    }
}

}  // namespace spdl
