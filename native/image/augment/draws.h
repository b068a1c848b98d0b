#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
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

// The purpose of an image's random numbers. Numbers for different purposes are independent.
enum class Purpose : std::uint64_t {
    kCrop = 0,
    kFlip = 1,
    kJitter = 2,
    kPolicy = 16,
    kJitterHappens,
    kGrayscale,
    kBlurHappens,
    kBlur,
    kSolarize,
    kPosterize,
    kEqualize,
    kAutocontrast,
    kSharpness,
    kErase,
};

// The random numbers of one image for one purpose: splitmix64 (G. Steele et al., 2014), seeded with a hash of the key,
// the image and the purpose.
class DrawStream {
  public:
    DrawStream(const DrawKey& key, std::uint64_t index, Purpose purpose) {
        for (const std::uint64_t part : {key.seed, key.epoch, index, static_cast<std::uint64_t>(purpose)}) {
            state_ = mix(state_ + kStep) ^ part;
        }
        state_ = mix(state_ + kStep);
    }

    double uniform(double low, double high) {
        return low + (high - low) * (static_cast<double>(next() >> 11U) * 0x1p-53);
    }

    // Draws an integer from 0 to `last`, each with the same probability.
    int integer(int last) { return static_cast<int>((next() >> 32U) * (static_cast<std::uint64_t>(last) + 1) >> 32U); }

  private:
    static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;

    static std::uint64_t mix(std::uint64_t value) {
        value = (value ^ value >> 30U) * 0xbf58476d1ce4e5b9U;
        value = (value ^ value >> 27U) * 0x94d049bb133111ebU;
        return value ^ value >> 31U;
    }

    std::uint64_t next() { return mix(state_ += kStep); }

    std::uint64_t state_ = 0;
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

enum class JitterStep : std::uint8_t { kBrightness, kContrast, kSaturation, kHue };

inline constexpr std::size_t kJitterSteps = 4;

// The changes to the colours of one image, and their order. A factor of 1 and a hue of 0 do nothing.
struct Jitter {
    std::array<JitterStep, kJitterSteps> order{JitterStep::kBrightness, JitterStep::kContrast, JitterStep::kSaturation,
                                               JitterStep::kHue};
    std::array<float, kJitterSteps> factors{1, 1, 1, 0};  // The hue's is in turns around the circle of colours.

    constexpr float& operator[](JitterStep step) { return factors[static_cast<std::size_t>(step)]; }
    constexpr float operator[](JitterStep step) const { return factors[static_cast<std::size_t>(step)]; }
};

// Random changes of colour, as torchvision's ColorJitter distributes them: each factor uniformly from its range, and
// the steps in any order.
struct ColorJitter {
    DrawKey key;
    std::array<std::pair<double, double>, kJitterSteps> ranges;  // In the order of JitterStep.
    std::vector<std::uint64_t> indices;                          // Of the images in the data set.

    [[nodiscard]] Jitter draw(std::uint64_t index) const;
};

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

// Those that change colours, in the order of JitterStep.
inline constexpr PixelOp kColorOps[] = {PixelOp::kBrightness, PixelOp::kContrast, PixelOp::kSaturation, PixelOp::kHue};

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

}  // namespace spdl
