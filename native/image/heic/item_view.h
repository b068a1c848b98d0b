#pragma once

#include <cstddef>
#include <span>

#include "core/bytes.h"
#include "core/geometry.h"
#include "core/image_items.h"
#include "media/orientation.h"

namespace spdl {

// The most items of which each is made of the next.
inline constexpr std::size_t kMostNested = 8;

// What is shown of an item's stored picture, and how it is turned then.
struct ItemView {
    Box part;
    Orientation orientation;
};

// Returns the view of a picture after the turns, mirrors and crops of an item, in their order. Throws MediaError if a
// crop leaves nothing.
ItemView apply_view(ItemView view, std::span<const ItemProperty> properties);

// Returns how the picture of such a file is turned.
Orientation heif_orientation(Bytes heif);

}  // namespace spdl
