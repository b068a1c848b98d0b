#include "image/orientation/image_metadata.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/bounded_read.h"
#include "core/image_items.h"
#include "core/jpeg_segments.h"
#include "core/tiff_directory.h"
#include "image/orientation/png_metadata.h"

namespace spdl {
namespace {

// Adds what a segment APP1 holds.
void add_segment(Bytes content, ImageMetadata& found) {
    constexpr std::string_view kExif{"Exif\0\0", 6};
    constexpr std::string_view kXmp{"http://ns.adobe.com/xap/1.0/\0", 29};
    if (starts_with(content, kXmp)) {
        found.xmp = MetadataBlock(content.subspan(kXmp.size()));
    } else if (starts_with(content, kExif)) {
        if (found.exif.bytes().empty()) {
            found.exif = MetadataBlock(content);
        } else {
            // What does not fit into one segment goes on in the next.
            found.exif.append(content.subspan(kExif.size()));
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

}  // namespace

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

}  // namespace spdl
