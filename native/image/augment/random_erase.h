#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/geometry.h"
#include "image/plan/random_crop.h"

namespace spdl {

// Rectangles of random area and aspect ratio to erase, as torchvision's RandomErasing distributes them: ten attempts at
// one that is smaller than the image.
struct RandomErase {
    DrawKey key;
    double probability = 0;
    std::pair<double, double> scale;     // The least and the greatest share of the image's area,
    std::pair<double, double> ratio;     // and ratio of height to width.
    std::vector<std::uint64_t> indices;  // Of the images in the data set.

    // Returns nothing if nothing is to be erased.
    [[nodiscard]] std::optional<Box> draw(std::uint64_t index, Size size) const;
};

// The layout of an array of images.
struct ImageArray {
    Size size;
    std::size_t channels;
    bool planes;  // Each channel is a plane.
};

// Sets the rectangle of each image to `values`, an element for each channel. The images lie one after the other.
void erase(const RandomErase& random, const ImageArray& array, Bytes values, std::uint8_t* images);

}  // namespace spdl
