#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/geometry.h"
#include "image/jitter/color_jitter.h"
#include "image/plan/random_crop.h"

namespace spdl {

// A step that changes the pixels of an image. Those up to kEqualize are the ones of the automatic policies, in the
// order of their tables.
enum class PixelOp : std::uint8_t {
    kIdentity,
    kShearX,      // By this many pixels for each row.
    kShearY,      // By this many pixels for each column.
    kTranslateX,  // By whole pixels.
    kTranslateY,
    kRotate,  // By degrees, against the clock.
    kBrightness,
    kSaturation,
    kContrast,
    kSharpness,
    kPosterize,  // To this many bits.
    kSolarize,   // From this value on.
    kAutocontrast,
    kEqualize,
    kHue,
    kGrayscale,
    kBlur,  // By a Gaussian of this deviation.
};

inline constexpr int kPolicyOps = 14;

struct PixelStep {
    PixelOp op = PixelOp::kIdentity;
    double value = 0;  // Its parameter; 0 if it has none.
    int kernel = 0;    // The number of weights of a blur.
};

// Policies that choose from a table of operations, which all are as likely.
enum class Policy : std::uint8_t {
    kNone,
    kRandAugment,     // Several operations, of one magnitude (E. Cubuk et al., 2020).
    kTrivialAugment,  // One operation, of any magnitude (S. Müller and F. Hutter, 2021), from the "wide" table.
};

struct AutoAugment {
    Policy policy = Policy::kNone;
    int num_ops = 2;
    int magnitude = 9;
    int bins = 31;  // How many magnitudes there are.
};

// Random changes to the pixels of an image after its resize. Each happens with its own probability, in the order of the
// fields.
struct PixelAugment {
    DrawKey key;
    std::vector<std::uint64_t> indices;  // Of the images in the data set.
    AutoAugment policy;
    double jitter = 0;
    ColorJitter colors;  // The ranges of the jitter.
    double grayscale = 0;
    double blur = 0;
    std::pair<double, double> blur_sigma{0.1, 2};
    int blur_kernel = 0;  // 0 is a tenth of the shorter side.
    double solarize = 0;
    double solarize_threshold = 128;
    double posterize = 0;
    int posterize_bits = 4;
    double equalize = 0;
    double autocontrast = 0;
    double sharpness = 0;
    double sharpness_factor = 2;

    // Replaces `steps` by those of an image that has this size after the resize.
    void draw(std::uint64_t index, Size size, std::vector<PixelStep>& steps) const;
};

}  // namespace spdl
