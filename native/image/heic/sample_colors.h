#pragma once

#include <span>

#include "core/image_items.h"

namespace spdl {

// How the samples of a picture stand for colours, in the numbers of ITU-T H.273; 2 is not specified.
struct SampleColors {
    int matrix = 2;
    int primaries = 2;
    bool full_range = false;
};

// Finds the colours that a file says of an item. Returns whether it says any.
bool find_colors(std::span<const ItemProperty> properties, SampleColors& found);

// What a picture's samples are multiplied by for its colours.
struct ColorFactors {
    float red_cr;
    float green_cb;
    float green_cr;
    float blue_cb;
};

// Matrices that need no factors.
inline constexpr int kRgbMatrix = 0;
inline constexpr int kYcgcoMatrix = 8;

// Throws MediaError for matrices that are not known.
ColorFactors color_factors(const SampleColors& colors);

}  // namespace spdl
