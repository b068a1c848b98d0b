#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "media/image_format.h"
#include "media/place.h"

namespace spdl {

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

// Returns the first number of an entry in the first directory of EXIF data, which are a TIFF file. It is not a number
// (NaN) if the entry has bytes or text, or if the data are not TIFF file. Returns nothing if there is no such entry.
// Damage counts as it does in Pillow: entries of unknown types, and those whose values take more than all the bytes,
// are left out; where values lie beyond the end, the directory ends.
std::optional<double> exif_value(Bytes exif, std::uint16_t tag);

// Returns how an AVIF (or another file of its family) wants its main picture turned and mirrored, in EXIF's numbers:
// from 1 to 8, and 0 if it does not say.
unsigned avif_orientation(Bytes avif);

// Finds the metadata of a PNG in all places where Pillow looks for them: a chunk eXIf, or a text as ImageMagick writes
// it, and a text of XMP.
ImageMetadata png_metadata(Bytes png);

// Finds the EXIF data and the XMP of an image, where Pillow does. EXIF data may begin with its name. A TIFF is its own
// EXIF data.
ImageMetadata image_metadata(Bytes image, ImageFormat format);

// Returns the orientation of a JPEG, PNG, WebP, TIFF or AVIF file as Pillow finds it: in its EXIF data or, if these do
// not mention it, in its XMP. The orientation in the AVIF itself comes first. Upright if none exists, or none that
// makes sense. The page of a TIFF is named by its directory; without one, it is the first.
Orientation exif_orientation(Bytes image, std::optional<std::uint64_t> page = std::nullopt);

}  // namespace spdl
