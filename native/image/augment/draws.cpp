#include "image/augment/draws.h"

#include <algorithm>
#include <cmath>

namespace spdl {
namespace {

using Range = std::pair<double, double>;

// Rounds to the nearest, halves to even, as Python does.
int round(double value) {
    return static_cast<int>(std::nearbyint(value));
}

Box center(Size size, Size crop) {
    const int left = (size.width - crop.width) / 2;
    const int top = (size.height - crop.height) / 2;
    return {left, top, left + crop.width, top + crop.height};
}

// Makes ten attempts at a rectangle of random area and ratio of its sides that `accepts` takes. `make` gets the sides,
// of which the ratio makes the first one longer, and returns them as width and height.
template <typename Make, typename Accepts>
std::optional<Box> draw_part(DrawStream& stream, Size size, const Range& scale, const Range& ratio, const Make& make,
                             const Accepts& accepts) {
    constexpr int kAttempts = 10;
    const double area = static_cast<double>(size.width) * size.height;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const double wanted = area * stream.uniform(scale.first, scale.second);
        const double aspect = std::exp(stream.uniform(std::log(ratio.first), std::log(ratio.second)));
        const auto [width, height] =
            make(std::nearbyint(std::sqrt(wanted * aspect)), std::nearbyint(std::sqrt(wanted / aspect)));
        if (accepts(width, height)) {
            const Size part{static_cast<int>(width), static_cast<int>(height)};
            const int top = stream.integer(size.height - part.height);
            const int left = stream.integer(size.width - part.width);
            return Box{left, top, left + part.width, top + part.height};
        }
    }
    return std::nullopt;
}

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
        steps.push_back({kColorOps[static_cast<std::size_t>(step)], jitter[step]});
    }
}

// SimCLR's kernel: the next odd number to a tenth of the side.
int default_kernel(Size size) {
    return std::max(3, std::min(size.width, size.height) / 10 | 1);
}

}  // namespace

Box RandomCrop::draw(std::uint64_t index, Size size) const {
    DrawStream stream(key, index, Purpose::kCrop);
    const auto fits = [size](double width, double height) {
        return width > 0 && width <= size.width && height > 0 && height <= size.height;
    };
    const auto wide = [](double width, double height) { return std::pair(width, height); };
    if (const std::optional<Box> drawn = draw_part(stream, size, scale, ratio, wide, fits)) {
        return *drawn;
    }
    const double own = static_cast<double>(size.width) / size.height;
    if (own < ratio.first) {
        return center(size, {size.width, std::max(round(size.width / ratio.first), 1)});
    }
    if (own > ratio.second) {
        return center(size, {std::max(round(size.height * ratio.second), 1), size.height});
    }
    return whole(size);
}

bool draw_flip(const DrawKey& key, std::uint64_t index, double probability) {
    return DrawStream(key, index, Purpose::kFlip).uniform(0.0, 1.0) < probability;
}

std::optional<Box> RandomErase::draw(std::uint64_t index, Size size) const {
    DrawStream stream(key, index, Purpose::kErase);
    if (stream.uniform(0.0, 1.0) >= probability) {
        return std::nullopt;
    }
    const auto smaller = [size](double width, double height) { return height < size.height && width < size.width; };
    const auto high = [](double height, double width) { return std::pair(width, height); };
    return draw_part(stream, size, scale, ratio, high, smaller);
}

Jitter ColorJitter::draw(std::uint64_t index) const {
    DrawStream stream(key, index, Purpose::kJitter);
    Jitter jitter;
    for (std::size_t i = kJitterSteps - 1; i > 0; --i) {
        std::swap(jitter.order[i], jitter.order[static_cast<std::size_t>(stream.integer(static_cast<int>(i)))]);
    }
    for (std::size_t i = 0; i < kJitterSteps; ++i) {
        jitter.factors[i] = static_cast<float>(stream.uniform(ranges[i].first, ranges[i].second));
    }
    return jitter;
}

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
