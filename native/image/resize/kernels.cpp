#include "image/resize/kernels.h"

#include <algorithm>
#include <atomic>

namespace spdl {
namespace {

std::atomic<const Kernels*>& selected() {
    static std::atomic<const Kernels*> kernels = available_kernels().front();
    return kernels;
}

}  // namespace

std::vector<const Kernels*> available_kernels() {
    std::vector<const Kernels*> available;
    for (const Kernels* variant : {
#if defined(__x86_64__)
             &kAvx512Kernels,
             &kAvx2Kernels,
#elif defined(__aarch64__)
             &kNeonKernels,
#endif
             &kScalarKernels,
         }) {
        if (variant->supported()) {
            available.push_back(variant);
        }
    }
    return available;
}

const Kernels& kernels() noexcept {
    return *selected().load(std::memory_order_relaxed);
}

bool select_kernels(std::string_view name) {
    for (const Kernels* variant : available_kernels()) {
        if (name.empty() || name == variant->name) {
            selected().store(variant, std::memory_order_relaxed);
            return true;
        }
    }
    return false;
}

namespace {

constexpr std::int32_t kHalf = 1 << (ResampleTable::kFractionBits - 1);

std::uint8_t clip(std::int32_t sum) {
    return static_cast<std::uint8_t>(std::clamp(sum >> ResampleTable::kFractionBits, 0, 255));
}

bool supported() noexcept {
    return true;
}

void pack(ResampleTable& /*table*/) {}

template <std::size_t kChannels>
void horizontal(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                int count) noexcept {
    for (int r = 0; r < count; ++r) {
        std::uint8_t* output = outputs[r];
        const std::int32_t* weights = table.weights.data();
        for (int i = 0; i < table.output; ++i) {
            const auto index = static_cast<std::size_t>(i);
            const std::uint8_t* source = sources[r] + kChannels * static_cast<std::size_t>(table.first[index]);
            std::int32_t sums[kChannels];
            std::fill_n(sums, kChannels, kHalf);
            for (int t = 0; t < table.taps[index]; ++t) {
                for (std::size_t channel = 0; channel < kChannels; ++channel) {
                    sums[channel] += weights[t] * *source++;
                }
            }
            output = std::transform(sums, sums + kChannels, output, clip);
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

const Kernels kScalarKernels{"scalar", supported, {pack, horizontal<3>}, {pack, horizontal<1>}, nullptr,
                             pack,     vertical,  write_pixels_scalar,   write_colors_scalar,   &kScalarPlanes};

}  // namespace spdl
