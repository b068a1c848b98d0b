#include <algorithm>

#include "image/resize/kernels.h"

namespace spdl {
namespace {

constexpr std::int32_t kHalf = 1 << (ResampleTable::kFractionBits - 1);

std::uint8_t clip(std::int32_t sum) {
    return static_cast<std::uint8_t>(std::clamp(sum >> ResampleTable::kFractionBits, 0, 255));
}

bool supported() noexcept {
    return true;
}

void pack(ResampleTable& /*table*/) {}

void horizontal(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                int count) noexcept {
    for (int r = 0; r < count; ++r) {
        std::uint8_t* output = outputs[r];
        const std::int32_t* weights = table.weights.data();
        for (int i = 0; i < table.output; ++i) {
            const auto index = static_cast<std::size_t>(i);
            const std::uint8_t* source = sources[r] + 3 * table.first[index];
            std::int32_t red = kHalf;
            std::int32_t green = kHalf;
            std::int32_t blue = kHalf;
            for (int t = 0; t < table.taps[index]; ++t) {
                red += weights[t] * source[0];
                green += weights[t] * source[1];
                blue += weights[t] * source[2];
                source += 3;
            }
            output[0] = clip(red);
            output[1] = clip(green);
            output[2] = clip(blue);
            output += 3;
            weights += table.stride;
        }
    }
}

void vertical(const ResampleTable& table, int index, const std::uint8_t* const* rows, std::uint8_t* output,
              std::size_t size) noexcept {
    const std::int32_t* const weights = table.weights.data() + static_cast<std::size_t>(index) * table.stride;
    const int taps = table.taps[static_cast<std::size_t>(index)];
    for (std::size_t x = 0; x < size; ++x) {
        std::int32_t sum = kHalf;
        for (int t = 0; t < taps; ++t) {
            sum += weights[t] * rows[t][x];
        }
        output[x] = clip(sum);
    }
}

}  // namespace

const Kernels kScalarKernels{"scalar", supported, {pack, horizontal}, nullptr, pack, vertical, write_pixels_scalar};

}  // namespace spdl
