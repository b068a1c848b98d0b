#pragma once

#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/file_boxes.h"

namespace spdl {

// The item of such a file, an AVIF or HEIF, that is its picture.
struct PrimaryItem {
    std::string_view type;            // Such as "av01", or "grid" for a picture in tiles; empty if none is said.
    std::vector<FileBox> properties;  // Those of the item, in their order.
};

// Finds the primary item of a file. Nothing outside the bytes is read, whatever they say; what cannot be found is left
// empty.
[[nodiscard]] PrimaryItem primary_item(Bytes file);

// The items of such a file that describe its picture; each is empty if there is none, or if its bytes do not lie
// together within the file.
struct ItemMetadata {
    Bytes exif;  // Behind the number of bytes that precede it.
    Bytes xmp;
};

// Finds the metadata of the primary item. If there are several of a kind, the last one counts.
[[nodiscard]] ItemMetadata primary_metadata(Bytes file);

}  // namespace spdl
