#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/geometry.h"
#include "image/augment/pixel_augment.h"

namespace spdl {

// A thread's memory for steps, kept from image to image.
struct PixelScratch {
    std::vector<PixelStep> steps;
    AlignedBuffer before;  // The pixels before a step that moves or mixes them.
    std::vector<float> rows;
};

// Changes an image of packed pixels, of three bytes each, by the steps in turn. The results are torchvision's for its
// functions of the same names, but rounded instead of cut off. Changes of brightness, contrast, saturation and hue that
// follow each other are rounded once. Reads up to kJitterSlack bytes after the pixels. All instruction sets give the
// same.
void take_steps(std::span<const PixelStep> steps, std::uint8_t* pixels, Size size, Channels channels,
                PixelScratch& scratch);

// Returns how a step moves the pixels of an image; nothing if it leaves them in their places.
std::optional<AffineMap> map_of(const PixelStep& step, Size size);

// Rows that lie around one, by their distance: a symmetric filter weighs two rows alike.
struct FilterRows {
    const float* center;
    const float* const* before;  // From a distance of 1 on.
    const float* const* after;
    const float* weights;  // From a distance of 0 on.
    std::size_t radius;
};

inline constexpr std::size_t kFilterBlock = 32;

// The loops over the pixels of rows, in one variant per instruction set.
struct PixelKernels {
    // Writes `count` sums, a multiple of kFilterBlock.
    void (*filter)(const FilterRows& rows, std::size_t count, float* to);

    // Blends the values of a row, from `begin` to `end`, with the mean of those around them, weighed as torchvision and
    // Pillow do.
    void (*sharpen)(const std::uint8_t* const rows[3], std::size_t begin, std::size_t end, float factor,
                    std::uint8_t* to);
};

// Returns the fastest variant that goes with the kernels of the resize.
const PixelKernels& pixel_kernels() noexcept;

}  // namespace spdl
