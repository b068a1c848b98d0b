#include "image/augment/pixel_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace spdl {
namespace {

constexpr std::size_t kPixel = 3;

std::size_t area(Size size) {
    return static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
}

std::size_t row_bytes(Size size) {
    return kPixel * static_cast<std::size_t>(size.width);
}

// Returns a copy of the pixels, to read from while they change.
const std::uint8_t* keep(const std::uint8_t* pixels, Size size, PixelScratch& scratch) {
    const std::size_t bytes = kPixel * area(size);
    scratch.before.reserve(bytes);
    std::memcpy(scratch.before.data(), pixels, bytes);
    return scratch.before.data();
}

using ByteTable = std::array<std::uint8_t, 256>;

void look_up(const std::array<ByteTable, kPixel>& tables, std::uint8_t* pixels, std::size_t count) {
    for (std::size_t i = 0; i < kPixel * count; i += kPixel) {
        for (std::size_t channel = 0; channel < kPixel; ++channel) {
            pixels[i + channel] = tables[channel][pixels[i + channel]];
        }
    }
}

using Histogram = std::array<std::uint32_t, 256>;

std::array<Histogram, kPixel> count_values(const std::uint8_t* pixels, std::size_t count) {
    std::array<Histogram, kPixel> histograms{};
    for (std::size_t i = 0; i < kPixel * count; i += kPixel) {
        for (std::size_t channel = 0; channel < kPixel; ++channel) {
            ++histograms[channel][pixels[i + channel]];
        }
    }
    return histograms;
}

ByteTable unchanged() {
    ByteTable table;
    for (std::size_t value = 0; value < table.size(); ++value) {
        table[value] = static_cast<std::uint8_t>(value);
    }
    return table;
}

// Spreads the values from the least to the greatest over all bytes.
ByteTable stretched(const Histogram& histogram) {
    std::size_t least = 0;
    while (histogram[least] == 0) {
        ++least;
    }
    std::size_t greatest = histogram.size() - 1;
    while (histogram[greatest] == 0) {
        --greatest;
    }
    ByteTable table = unchanged();
    for (std::size_t value = least; least < greatest && value <= greatest; ++value) {
        table[value] = static_cast<std::uint8_t>((value - least) * 255 / (greatest - least));
    }
    return table;
}

// Makes all values as frequent, in Pillow's steps: they leave out the pixels of the greatest value.
ByteTable equalized(const Histogram& histogram, std::size_t count) {
    std::size_t greatest = histogram.size() - 1;
    while (histogram[greatest] == 0) {
        --greatest;
    }
    const std::size_t step = (count - histogram[greatest]) / 255;
    ByteTable table = unchanged();
    std::size_t below = step / 2;
    for (std::size_t value = 0; step > 0 && value < table.size(); ++value) {
        table[value] = static_cast<std::uint8_t>(std::min<std::size_t>(below / step, 255));
        below += histogram[value];
    }
    return table;
}

template <typename Make>
void map_values(std::uint8_t* pixels, std::size_t count, const Make& make_table) {
    const std::array<Histogram, kPixel> histograms = count_values(pixels, count);
    std::array<ByteTable, kPixel> tables;
    for (std::size_t channel = 0; channel < kPixel; ++channel) {
        tables[channel] = make_table(histograms[channel]);
    }
    look_up(tables, pixels, count);
}

void posterize(std::uint8_t* pixels, std::size_t bytes, int bits) {
    const auto mask = static_cast<std::uint8_t>(0xFF00U >> static_cast<unsigned>(bits));
    for (std::size_t i = 0; i < bytes; ++i) {
        pixels[i] &= mask;
    }
}

void solarize(std::uint8_t* pixels, std::size_t bytes, double from) {
    const double least = std::ceil(from);
    if (least > 255) {
        return;
    }
    const auto threshold = static_cast<std::uint8_t>(std::max(least, 0.0));
    for (std::size_t i = 0; i < bytes; ++i) {
        pixels[i] = static_cast<std::uint8_t>(pixels[i] >= threshold ? 255 - pixels[i] : pixels[i]);
    }
}

void sharpen(std::uint8_t* pixels, Size size, float factor, PixelScratch& scratch) {
    // The pixels at the borders stay.
    if (size.width < 3 || size.height < 3) {
        return;
    }
    const std::uint8_t* const from = keep(pixels, size, scratch);
    const std::size_t row = row_bytes(size);
    for (std::size_t y = 1; y + 1 < static_cast<std::size_t>(size.height); ++y) {
        const std::uint8_t* const rows[] = {from + (y - 1) * row, from + y * row, from + (y + 1) * row};
        pixel_kernels().sharpen(rows, kPixel, row - kPixel, factor, pixels + y * row);
    }
}

// Returns the weights of a Gaussian from its middle on, without those that change nothing that one sees.
std::vector<float> gaussian(double sigma, int kernel) {
    constexpr double kLost = 1e-3;
    const int half = (kernel - 1) / 2;
    std::vector<double> weights;
    double sum = 0;
    for (int i = 0; i <= half; ++i) {
        const double distance = i / sigma;
        weights.push_back(std::exp(-0.5 * distance * distance));
        sum += (i == 0 ? 1 : 2) * weights.back();
    }
    double lost = 2 * weights.back();
    double kept = sum;
    while (weights.size() > 1 && lost < kLost * sum) {
        kept = sum - lost;
        weights.pop_back();
        lost += 2 * weights.back();
    }
    std::vector<float> floats;
    for (const double weight : weights) {
        floats.push_back(static_cast<float>(weight / kept));
    }
    return floats;
}

// Returns the place of a sample outside of `count` samples that are mirrored at the first and the last one.
int mirrored(int place, int count) {
    const int period = std::max(2 * (count - 1), 1);
    place = std::abs(place) % period;
    return std::min(place, period - place);
}

std::size_t in_blocks(std::size_t count) {
    return (count + kFilterBlock - 1) / kFilterBlock * kFilterBlock;
}

void blur(std::uint8_t* pixels, Size size, const PixelStep& step, PixelScratch& scratch) {
    const std::vector<float> weights = gaussian(step.value, step.kernel);
    const int radius = static_cast<int>(weights.size()) - 1;
    if (radius == 0) {
        return;
    }
    const PixelKernels& kernels = pixel_kernels();
    const std::size_t values = row_bytes(size);
    const std::size_t length = in_blocks(values);
    const std::size_t margin = kPixel * static_cast<std::size_t>(radius);
    const auto ring = static_cast<std::size_t>(2 * radius + 1);
    scratch.rows.assign(length + 2 * margin + (ring + 1) * length, 0.0F);
    float* const padded = scratch.rows.data();
    float* const across = padded + length + 2 * margin;
    float* const result = across + ring * length;
    const auto row_at = [&](int y) { return across + static_cast<std::size_t>(y) % ring * length; };

    std::vector<const float*> before(weights.size() - 1);
    std::vector<const float*> after(weights.size() - 1);
    FilterRows rows{padded + margin, before.data(), after.data(), weights.data(), before.size()};
    const auto filter_across = [&](int y) {
        const std::uint8_t* const row = pixels + static_cast<std::size_t>(y) * values;
        for (std::size_t i = 0; i < values; ++i) {
            padded[margin + i] = static_cast<float>(static_cast<int>(row[i]));
        }
        for (int i = 1; i <= radius; ++i) {
            const std::size_t left = kPixel * static_cast<std::size_t>(mirrored(-i, size.width));
            const std::size_t right = kPixel * static_cast<std::size_t>(mirrored(size.width - 1 + i, size.width));
            for (std::size_t channel = 0; channel < kPixel; ++channel) {
                padded[margin - kPixel * static_cast<std::size_t>(i) + channel] = padded[margin + left + channel];
                padded[margin + values + kPixel * static_cast<std::size_t>(i - 1) + channel] =
                    padded[margin + right + channel];
            }
            before[static_cast<std::size_t>(i - 1)] = padded + margin - kPixel * static_cast<std::size_t>(i);
            after[static_cast<std::size_t>(i - 1)] = padded + margin + kPixel * static_cast<std::size_t>(i);
        }
        rows.center = padded + margin;
        kernels.filter(rows, length, row_at(y));
    };

    int ready = 0;
    for (int y = 0; y < size.height; ++y) {
        for (; ready < size.height && ready <= y + radius; ++ready) {
            filter_across(ready);
        }
        for (int i = 1; i <= radius; ++i) {
            before[static_cast<std::size_t>(i - 1)] = row_at(mirrored(y - i, size.height));
            after[static_cast<std::size_t>(i - 1)] = row_at(mirrored(y + i, size.height));
        }
        rows.center = row_at(y);
        kernels.filter(rows, length, result);
        std::uint8_t* const to = pixels + static_cast<std::size_t>(y) * values;
        for (std::size_t i = 0; i < values; ++i) {
            to[i] = static_cast<std::uint8_t>(static_cast<int>(result[i] + 0.5F));
        }
    }
}

std::optional<JitterStep> color_step(PixelOp op) {
    // A gray pixel has no saturation.
    const auto* const found = std::ranges::find(kColorOps, op == PixelOp::kGrayscale ? PixelOp::kSaturation : op);
    return found == std::end(kColorOps) ? std::nullopt : std::optional(static_cast<JitterStep>(found - kColorOps));
}

// Takes as many steps as one pass over the pixels can, and returns their number.
std::size_t take_colors(std::span<const PixelStep> steps, std::uint8_t* pixels, std::size_t count, Channels channels) {
    Jitter jitter;
    std::size_t taken = 0;
    for (; taken < std::min(steps.size(), kJitterSteps); ++taken) {
        const std::optional<JitterStep> step = color_step(steps[taken].op);
        const auto end = jitter.order.begin() + static_cast<std::ptrdiff_t>(taken);
        if (!step || std::find(jitter.order.begin(), end, *step) != end) {
            break;
        }
        // The others come later.
        std::iter_swap(end, std::find(end, jitter.order.end(), *step));
        jitter[*step] = static_cast<float>(steps[taken].value);
    }
    jitter_pixels(pixels, count, channels, jitter);
    return taken;
}

void take(const PixelStep& step, std::uint8_t* pixels, Size size, PixelScratch& scratch) {
    const std::size_t count = area(size);
    switch (step.op) {
        case PixelOp::kShearX:
        case PixelOp::kShearY:
        case PixelOp::kTranslateX:
        case PixelOp::kTranslateY:
        case PixelOp::kRotate:
            return move_pixels(*map_of(step, size), false, {}, pixels, size, scratch.before);
        case PixelOp::kSharpness:
            return sharpen(pixels, size, static_cast<float>(step.value), scratch);
        case PixelOp::kPosterize:
            return posterize(pixels, kPixel * count, static_cast<int>(step.value));
        case PixelOp::kSolarize:
            return solarize(pixels, kPixel * count, step.value);
        case PixelOp::kAutocontrast:
            return map_values(pixels, count, stretched);
        case PixelOp::kEqualize:
            return map_values(pixels, count, [count](const Histogram& it) { return equalized(it, count); });
        case PixelOp::kBlur:
            return blur(pixels, size, step, scratch);
        default:
            return;
    }
}

}  // namespace

void jitter_pixels(std::uint8_t* pixels, std::size_t count, Channels channels, const Jitter& jitter) {
    constexpr Jitter kNothing;
    JitterPlan plan;
    plan.swapped = channels == Channels::kBgr;
    for (const JitterStep step : jitter.order) {
        if (jitter[step] == kNothing[step]) {
            continue;
        }
        if (step == JitterStep::kContrast) {
            plan.before_contrast = plan.steps;
        }
        plan.order[plan.steps++] = step;
    }
    if (plan.steps == 0) {
        return;
    }
    plan.jitter = jitter;
    const JitterKernels& kernels = jitter_kernels();
    if (jitter[JitterStep::kContrast] != 1) {
        plan.mean = static_cast<float>(kernels.sum_gray(plan, pixels, count) / static_cast<double>(count));
    }
    kernels.apply(plan, pixels, count);
}

std::optional<AffineMap> map_of(const PixelStep& step, Size size) {
    switch (step.op) {
        case PixelOp::kShearX:
            return AffineMap{1, step.value, step.value / 2, 0, 1, 0};
        case PixelOp::kShearY:
            return AffineMap{1, 0, 0, step.value, 1, step.value / 2};
        case PixelOp::kTranslateX:
            return AffineMap{1, 0, -step.value, 0, 1, 0};
        case PixelOp::kTranslateY:
            return AffineMap{1, 0, 0, 0, 1, -step.value};
        case PixelOp::kRotate: {
            const double angle = step.value * std::numbers::pi / 180;
            const double sine = std::sin(angle);
            const double cosine = std::cos(angle);
            const double x = (size.width - 1) / 2.0;
            const double y = (size.height - 1) / 2.0;
            return AffineMap{cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y};
        }
        default:
            return std::nullopt;
    }
}

void take_steps(std::span<const PixelStep> steps, std::uint8_t* pixels, Size size, Channels channels,
                PixelScratch& scratch) {
    while (!steps.empty()) {
        std::size_t taken = 1;
        if (color_step(steps.front().op)) {
            taken = take_colors(steps, pixels, area(size), channels);
        } else {
            take(steps.front(), pixels, size, scratch);
        }
        steps = steps.subspan(taken);
    }
}

}  // namespace spdl
