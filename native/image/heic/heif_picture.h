#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/geometry.h"
#include "core/image_items.h"
#include "image/heic/coded_picture.h"
#include "image/heic/item_view.h"
#include "image/heic/sample_colors.h"

namespace spdl {

// A picture that is made of tiles of one size, row by row; often of one.
struct TiledPicture {
    std::vector<std::uint32_t> tiles;
    int columns = 1;
    Size tile;
    SampleLayout layout;
    std::optional<SampleColors> colors;  // As the file says.
    ItemView view;                       // Its part is one of all tiles together.
};

struct HeifPicture {
    TiledPicture image;
    std::optional<TiledPicture> alpha;
    bool premultiplied = false;
};

// Finds the picture of a file and what it is made of. Throws MediaError if it is damaged, made in a way that is not
// read, or of parts that are too large for a picture of `max_pixels`.
HeifPicture find_heif_picture(const ImageItems& items, std::int64_t max_pixels);

// Returns the content of a property of an item; empty if there is none of that name.
Bytes find_property(std::span<const ItemProperty> properties, std::string_view name);

}  // namespace spdl
