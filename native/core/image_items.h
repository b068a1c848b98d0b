#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// A box of a file of ISO's base media format: its name of four letters, and what is in it.
struct FileBox {
    std::string_view name;
    Bytes content;
};

// The item of such a file, an AVIF or HEIF, that is its picture.
struct PrimaryItem {
    std::string_view type;            // Such as "av01", or "grid" for a picture in tiles; empty if none is said.
    std::vector<FileBox> properties;  // Those of the item, in their order.
};

// Finds the primary item of a file. Nothing outside the bytes is read, whatever they say; what cannot be found is left
// empty.
[[nodiscard]] PrimaryItem primary_item(Bytes file);

}  // namespace spdl
