#include "image/augment/pixel_augment.h"

#include <algorithm>
#include <cmath>

namespace spdl {
namespace {

bool happens(const DrawKey& key, std::uint64_t index, Purpose purpose, double probability) {
    return probability > 0 && DrawStream(key, index, purpose).uniform(0.0, 1.0) < probability;
}

// The greatest magnitudes of a table. The translation is a share of the side, or pixels.
struct Magnitudes {
    double shear;
    double translate;
    bool pixels;
    double rotate;
    double color;
    double lost_bits;
};

constexpr Magnitudes kRandMagnitudes{0.3, 150.0 / 331.0, false, 30, 0.9, 4};
constexpr Magnitudes kTrivialMagnitudes{0.99, 32, true, 135, 0.99, 6};

// Returns an operation of the magnitude `bin` of those from 0 to `last`, in either direction where it has two.
PixelStep make_step(PixelOp op, const Magnitudes& most, int bin, int last, bool negative, Size size) {
    const double sign = negative ? -1 : 1;
    const double share = last > 0 ? static_cast<double>(bin) / last : 0;
    switch (op) {
        case PixelOp::kShearX:
        case PixelOp::kShearY:
            return {op, sign * most.shear * share};
        case PixelOp::kTranslateX:
        case PixelOp::kTranslateY: {
            const double side = most.pixels ? 1 : op == PixelOp::kTranslateX ? size.width : size.height;
            return {op, sign * std::floor(most.translate * side * share)};
        }
        case PixelOp::kRotate:
            return {op, sign * most.rotate * share};
        case PixelOp::kBrightness:
        case PixelOp::kSaturation:
        case PixelOp::kContrast:
        case PixelOp::kSharpness:
            return {op, 1 + sign * most.color * share};
        case PixelOp::kPosterize:
            return {op, std::nearbyint(8 - most.lost_bits * share)};
        case PixelOp::kSolarize:
            // Whole numbers stay whole.
            return {op, last > 0 ? 255.0 * (last - bin) / last : 255};
        default:
            return {op};
    }
}

void draw_policy(const AutoAugment& policy, const DrawKey& key, std::uint64_t index, Size size,
                 std::vector<PixelStep>& steps) {
    DrawStream stream(key, index, Purpose::kPolicy);
    const bool several = policy.policy == Policy::kRandAugment;
    for (int i = 0; i < (several ? policy.num_ops : 1); ++i) {
        const auto op = static_cast<PixelOp>(stream.integer(kPolicyOps - 1));
        const bool negative = stream.integer(1) == 1;
        const int bin = several ? policy.magnitude : stream.integer(policy.bins - 1);
        const Magnitudes& most = several ? kRandMagnitudes : kTrivialMagnitudes;
        const PixelStep step = make_step(op, most, bin, policy.bins - 1, negative, size);
        if (step.op != PixelOp::kIdentity) {
            steps.push_back(step);
        }
    }
}

void draw_jitter(const ColorJitter& colors, std::uint64_t index, std::vector<PixelStep>& steps) {
    const Jitter jitter = colors.draw(index);
    for (const JitterStep step : jitter.order) {
        switch (step) {
            case JitterStep::kBrightness:
                steps.push_back({PixelOp::kBrightness, jitter.brightness});
                break;
            case JitterStep::kContrast:
                steps.push_back({PixelOp::kContrast, jitter.contrast});
                break;
            case JitterStep::kSaturation:
                steps.push_back({PixelOp::kSaturation, jitter.saturation});
                break;
            case JitterStep::kHue:
                steps.push_back({PixelOp::kHue, jitter.hue});
        }
    }
}

// SimCLR's kernel: the next odd number to a tenth of the side.
int default_kernel(Size size) {
    return std::max(3, std::min(size.width, size.height) / 10 | 1);
}

}  // namespace

void PixelAugment::draw(std::uint64_t index, Size size, std::vector<PixelStep>& steps) const {
    steps.clear();
    if (policy.policy != Policy::kNone) {
        draw_policy(policy, key, index, size, steps);
    }
    if (happens(key, index, Purpose::kJitterHappens, jitter)) {
        draw_jitter(colors, index, steps);
    }
    if (happens(key, index, Purpose::kGrayscale, grayscale)) {
        steps.push_back({PixelOp::kGrayscale});
    }
    if (happens(key, index, Purpose::kBlurHappens, blur)) {
        const double sigma = DrawStream(key, index, Purpose::kBlur).uniform(blur_sigma.first, blur_sigma.second);
        steps.push_back({PixelOp::kBlur, sigma, blur_kernel == 0 ? default_kernel(size) : blur_kernel});
    }
    if (happens(key, index, Purpose::kSolarize, solarize)) {
        steps.push_back({PixelOp::kSolarize, solarize_threshold});
    }
    if (happens(key, index, Purpose::kPosterize, posterize)) {
        steps.push_back({PixelOp::kPosterize, static_cast<double>(posterize_bits)});
    }
    if (happens(key, index, Purpose::kEqualize, equalize)) {
        steps.push_back({PixelOp::kEqualize});
    }
    if (happens(key, index, Purpose::kAutocontrast, autocontrast)) {
        steps.push_back({PixelOp::kAutocontrast});
    }
    if (happens(key, index, Purpose::kSharpness, sharpness)) {
        steps.push_back({PixelOp::kSharpness, sharpness_factor});
    }
}

}  // namespace spdl
