#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/geometry.h"

namespace spdl {

// The key of the random numbers. The numbers of one image do not depend on the other images that are loaded, nor on
// their order.
struct DrawKey {
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
};

// Crops of random area and aspect ratio, as torchvision's RandomResizedCrop distributes them: ten attempts, then the
// largest centred crop whose ratio is allowed.
struct RandomCrop {
    DrawKey key;
    std::pair<double, double> scale;     // The least and the greatest share of the image's area,
    std::pair<double, double> ratio;     // and ratio of width to height.
    std::vector<std::uint64_t> indices;  // Of the images in the data set.

    [[nodiscard]] Box draw(std::uint64_t index, Size size) const;
};

// True with a probability of `probability`, independently of the crop that is drawn for the same image.
bool draw_flip(const DrawKey& key, std::uint64_t index, double probability);

}  // namespace spdl
