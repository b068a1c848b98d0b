#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/bytes.h"
#include "core/geometry.h"
#include "image/augment/draws.h"
#include "media/pixel_format.h"

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

// Moves an image of packed pixels, of three bytes each, within its canvas. A pixel becomes the nearest one, halves to
// even, or with `blend` what lies between four of them. Outside of the image there is `pad`. `before` is a thread's
// memory for the pixels that are read.
void move_pixels(const AffineMap& map, bool blend, const PixelBytes& pad, std::uint8_t* pixels, Size size,
                 AlignedBuffer& before);

// The layout of an array of images.
struct ImageArray {
    Size size;
    std::size_t channels;
    bool planes;  // Each channel is a plane.
};

// Sets the rectangle of each image to `values`, an element for each channel. The images lie one after the other.
void erase(const RandomErase& random, const ImageArray& array, Bytes values, std::uint8_t* images);

// Changes the colours of an image, of three bytes each: red, green and blue, or the other way round. Every step is
// computed on floats and bounded by 0 and 255, and the result is rounded once. Reads up to kJitterSlack bytes after the
// pixels. All instruction sets give the same.
void jitter_pixels(std::uint8_t* pixels, std::size_t count, Channels channels, const Jitter& jitter);

inline constexpr std::size_t kJitterSlack = 64;

// The steps that change something.
struct JitterPlan {
    Jitter jitter;
    std::array<JitterStep, kJitterSteps> order{};
    std::size_t steps = 0;
    std::size_t before_contrast = 0;  // How many of them come before the contrast.
    float mean = 0;                   // Of the grays there.
    bool swapped = false;             // Blue comes first.
};

// The passes over an image, in one variant per instruction set.
struct JitterKernels {
    // Returns the sum of the grays of all pixels before the contrast.
    double (*sum_gray)(const JitterPlan& plan, const std::uint8_t* pixels, std::size_t count);

    void (*apply)(const JitterPlan& plan, std::uint8_t* pixels, std::size_t count);
};

// Returns the fastest variant that goes with the kernels of the resize.
const JitterKernels& jitter_kernels() noexcept;

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
