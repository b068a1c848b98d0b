#include "gpu/yuv_frames.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "cuda/kernels.h"
#include "gpu/workspace.h"

namespace spdl {
namespace {

// The shares of red and blue in luma.
struct Shares {
    double red;
    double blue;
};

std::optional<Shares> shares_of(int matrix) {
    switch (matrix) {
        case 1:
            return Shares{0.2126, 0.0722};
        case 4:
            return Shares{0.30, 0.11};
        case 5:
        case 6:
            return Shares{0.299, 0.114};
        case 7:
            return Shares{0.212, 0.087};
        case 9:
        case 10:
            return Shares{0.2627, 0.0593};
        default:
            return std::nullopt;
    }
}

int fixed(double value) {
    return static_cast<int>(std::lround(value * (1 << cuda::kernels::kPlaces)));
}

}  // namespace

bool is_known_matrix(int matrix) {
    return shares_of(matrix).has_value();
}

std::string FrameForm::describe() const {
    return std::to_string(surface.width) + "x" + std::to_string(surface.height) +
           (bits > 8 ? " of " + std::to_string(bits) + " bits" : "");
}

cuda::kernels::YuvFactors yuv_factors(const VideoColors& colors, int bits) {
    const Shares shares = shares_of(colors.matrix).value_or(Shares{0.2126, 0.0722});
    const double green = 1 - shares.red - shares.blue;
    // What a sample of 8 bits counts in steps of 1, one with more bits counts in smaller ones.
    const int step = 1 << (bits - 8);
    const double whole = 255.0 / (256 * step - 1);
    const double luma = colors.full_range ? whole : 255.0 / (219 * step);
    const double chroma = colors.full_range ? whole : 255.0 / (224 * step);
    const double red = 2 * (1 - shares.red) * chroma;
    const double blue = 2 * (1 - shares.blue) * chroma;
    cuda::kernels::YuvFactors factors{};
    factors.luma_offset = colors.full_range ? 0 : 16 * step;
    factors.chroma_offset = 128 * step;
    factors.luma = fixed(luma);
    factors.red_of_red = fixed(red);
    factors.green_of_blue = fixed(-blue * shares.blue / green);
    factors.green_of_red = fixed(-red * shares.red / green);
    factors.blue_of_blue = fixed(blue);
    factors.unused_bits = bits > 8 ? 16 - bits : 0;
    factors.deep = bits > 8 ? 1 : 0;
    return factors;
}

void convert_frames(cuda::Device device, cuda::Stream stream, const std::string& kernel_folder,
                    std::span<const YuvFrames> from, const FrameForm& form, bool blue_first, cuda::DevicePointer to) {
    // The third side of a grid is no longer.
    constexpr int kMostFrames = 65535;
    const cuda::Kernels& kernels = cuda::load_kernels(device, kernel_folder);
    const cuda::ContextScope scope(device);
    const Size size = form.surface;
    cuda::kernels::PlanesArguments arguments{};
    arguments.width = size.width;
    arguments.height = size.height;
    arguments.factors = yuv_factors(form.colors, form.bits);
    arguments.order = blue_first ? cuda::kernels::kBlueFirst : cuda::kernels::kRedFirst;
    Workspace workspace(device, stream);
    workspace.begin();
    for (const YuvFrames& part : from) {
        for (int first = 0; first < part.count; first += kMostFrames) {
            const int count = std::min(kMostFrames, part.count - first);
            const std::size_t begin = part.frames + static_cast<std::size_t>(first) * form.bytes();
            arguments.from = reinterpret_cast<const cuda::kernels::Byte*>(begin);
            arguments.to = reinterpret_cast<cuda::kernels::Byte*>(to);
            cuda::launch(kernels.convert_to_planes, size.width, size.height, count, &arguments, stream,
                         "convert_to_planes");
            to += rgb_bytes(size) * static_cast<std::size_t>(count);
        }
    }
    workspace.finish();
}

}  // namespace spdl
