#include "image/jitter/color_jitter.h"

#include <utility>

namespace spdl {
namespace {

bool changes(JitterStep step, const Jitter& jitter) {
    switch (step) {
        case JitterStep::kBrightness:
            return jitter.brightness != 1;
        case JitterStep::kContrast:
            return jitter.contrast != 1;
        case JitterStep::kSaturation:
            return jitter.saturation != 1;
        default:
            return jitter.hue != 0;
    }
}

}  // namespace

Jitter ColorJitter::draw(std::uint64_t index) const {
    DrawStream stream(key, index, Purpose::kJitter);
    Jitter jitter;
    for (std::size_t i = kJitterSteps - 1; i > 0; --i) {
        std::swap(jitter.order[i], jitter.order[static_cast<std::size_t>(stream.integer(static_cast<int>(i)))]);
    }
    const auto factor = [&stream](const std::pair<double, double>& range) {
        return static_cast<float>(stream.uniform(range.first, range.second));
    };
    jitter.brightness = factor(brightness);
    jitter.contrast = factor(contrast);
    jitter.saturation = factor(saturation);
    jitter.hue = factor(hue);
    return jitter;
}

void jitter_pixels(std::uint8_t* pixels, std::size_t count, Channels channels, const Jitter& jitter) {
    JitterPlan plan;
    plan.swapped = channels == Channels::kBgr;
    for (const JitterStep step : jitter.order) {
        if (!changes(step, jitter)) {
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
    if (jitter.contrast != 1) {
        plan.mean = static_cast<float>(kernels.sum_gray(plan, pixels, count) / static_cast<double>(count));
    }
    kernels.apply(plan, pixels, count);
}

}  // namespace spdl
