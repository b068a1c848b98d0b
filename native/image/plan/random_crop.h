#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/geometry.h"
#include "image/plan/draw_stream.h"

namespace spdl {

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
