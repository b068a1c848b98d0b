#include "image/orientation/exif_orientation.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/bounded_read.h"
#include "core/tiff_directory.h"
#include "image/orientation/avif_orientation.h"
#include "media/image_format.h"

namespace spdl {
namespace {

constexpr unsigned kUnknown = 0;

bool starts_with(Bytes bytes, std::string_view text) {
    return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// EXIF data is a TIFF file.
unsigned tiff_orientation(Bytes tiff) {
    constexpr std::uint16_t kOrientation = 0x0112;
    const std::optional<TiffDirectory> directory = TiffDirectory::first(tiff);
    return directory ? directory->integer(kOrientation).value_or(kUnknown) : kUnknown;
}

constexpr std::string_view kExifHeader{"Exif\0\0", 6};

unsigned jpeg_orientation(Bytes jpeg) {
    constexpr std::uint8_t kScan = 0xda;
    constexpr std::uint8_t kApp1 = 0xe1;
    std::size_t at = 2;
    while (at + 4 <= jpeg.size() && jpeg[at] == 0xff) {
        const std::uint8_t marker = jpeg[at + 1];
        if (marker == 0xff) {  // A fill byte.
            ++at;
            continue;
        }
        if (marker == kScan) {
            break;
        }
        const std::size_t length = read_integer(jpeg, at + 2, 2, false);
        const Bytes content = tail(jpeg, at + 4);
        if (length < 2 || content.size() < length - 2) {
            break;
        }
        if (marker == kApp1 && starts_with(content.first(length - 2), kExifHeader)) {
            return tiff_orientation(content.subspan(kExifHeader.size(), length - 2 - kExifHeader.size()));
        }
        at += 2 + length;
    }
    return kUnknown;
}

unsigned png_orientation(Bytes png) {
    constexpr std::size_t kAround = 12;  // The length, the name and the checksum of a chunk.
    for (Bytes chunk = tail(png, 8); chunk.size() >= kAround;) {
        const std::size_t length = read_integer(chunk, 0, 4, false);
        if (length > chunk.size() - kAround) {
            break;
        }
        if (starts_with(chunk.subspan(4), "eXIf")) {
            return tiff_orientation(chunk.subspan(8, length));
        }
        chunk = tail(chunk, length + kAround);
    }
    return kUnknown;
}

unsigned webp_orientation(Bytes webp) {
    for (Bytes chunk = tail(webp, 12); chunk.size() >= 8;) {
        const std::size_t length = read_integer(chunk, 4, 4, true);
        if (length > chunk.size() - 8) {
            break;
        }
        if (starts_with(chunk, "EXIF")) {
            const Bytes exif = chunk.subspan(8, length);
            return tiff_orientation(starts_with(exif, kExifHeader) ? exif.subspan(kExifHeader.size()) : exif);
        }
        chunk = tail(chunk, 8 + length + length % 2);
    }
    return kUnknown;
}

unsigned orientation_number(Bytes image) {
    switch (image_format(image)) {
        case ImageFormat::kJpeg:
            return jpeg_orientation(image);
        case ImageFormat::kPng:
            return png_orientation(image);
        case ImageFormat::kWebp:
            return webp_orientation(image);
        case ImageFormat::kAvif:
        case ImageFormat::kHeif:
            return avif_orientation(image);
        default:
            return tiff_orientation(image);
    }
}

}  // namespace

Orientation exif_orientation(Bytes image) {
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
