#include "gpu/nv12.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "cuda/kernel_arguments.h"
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
    return static_cast<int>(std::lround(value * 65536));
}

cuda::kernels::Nv12Arguments factors(const VideoColors& colors) {
    const Shares shares = shares_of(colors.matrix).value_or(Shares{0.2126, 0.0722});
    const double green = 1 - shares.red - shares.blue;
    const double luma = colors.full_range ? 1.0 : 255.0 / 219.0;
    const double chroma = colors.full_range ? 1.0 : 255.0 / 224.0;
    const double red = 2 * (1 - shares.red) * chroma;
    const double blue = 2 * (1 - shares.blue) * chroma;
    cuda::kernels::Nv12Arguments arguments{};
    arguments.luma_offset = colors.full_range ? 0 : 16;
    arguments.luma = fixed(luma);
    arguments.red_of_red = fixed(red);
    arguments.green_of_blue = fixed(-blue * shares.blue / green);
    arguments.green_of_red = fixed(-red * shares.red / green);
    arguments.blue_of_blue = fixed(blue);
    return arguments;
}

}  // namespace

bool is_known_matrix(int matrix) {
    return shares_of(matrix).has_value();
}

void convert_nv12(cuda::Device device, cuda::Stream stream, const std::string& kernel_folder,
                  std::span<const Nv12Frames> from, Size size, const VideoColors& colors, bool blue_first,
                  cuda::DevicePointer to) {
    // The third side of a grid is no longer.
    constexpr int kMostFrames = 65535;
    const cuda::Kernels& kernels = cuda::load_kernels(device, kernel_folder);
    const cuda::ContextScope scope(device);
    cuda::kernels::Nv12Arguments arguments = factors(colors);
    arguments.width = size.width;
    arguments.height = size.height;
    arguments.order = blue_first ? cuda::kernels::kBlueFirst : cuda::kernels::kRedFirst;
    const std::size_t pixels = static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
    Workspace workspace(device, stream);
    workspace.begin();
    for (const Nv12Frames& part : from) {
        for (int first = 0; first < part.count; first += kMostFrames) {
            const int count = std::min(kMostFrames, part.count - first);
            const std::size_t begin = part.frames + static_cast<std::size_t>(first) * (pixels + pixels / 2);
            arguments.from = reinterpret_cast<const cuda::kernels::Byte*>(begin);
            arguments.to = reinterpret_cast<cuda::kernels::Byte*>(to);
            cuda::launch(kernels.convert_nv12, size.width, size.height, count, &arguments, stream, "convert_nv12");
            to += 3 * pixels * static_cast<std::size_t>(count);
        }
    }
    workspace.finish();
}

}  // namespace spdl
