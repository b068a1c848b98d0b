#pragma once

#include "core/geometry.h"

namespace spdl {

// How the stored image is turned and mirrored against the upright one.
struct Orientation {
    bool transposed = false;  // Its rows are the upright image's columns.
    bool mirrored_x = false;  // Its rows run against the side of the upright image that they lie along,
    bool mirrored_y = false;  // or its columns do.

    bool operator==(const Orientation&) const = default;
    [[nodiscard]] bool upright() const { return !transposed && !mirrored_x && !mirrored_y; }
    [[nodiscard]] Size upright_size(Size stored) const {
        return transposed ? Size{stored.height, stored.width} : stored;
    }
    // Returns the same part of the stored image.
    [[nodiscard]] Box stored_box(const Box& upright, Size stored) const;
};

// Returns how a picture is stored that a viewer turns clockwise by 0, 90, 180 or 270 degrees.
Orientation turned_by(int degrees);

}  // namespace spdl
