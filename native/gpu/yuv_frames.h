#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/geometry.h"
#include "cuda/device.h"
#include "cuda/kernel_arguments.h"

namespace spdl {

// How the colours of a video are coded, by the numbers of ITU-T H.273.
struct VideoColors {
    int matrix = 1;           // 1: BT.709; 5 and 6: BT.601; 9: BT.2020; also 4 and 7.
    bool full_range = false;  // Whether luma goes from 0 to 255, and not from 16 to 235.
    bool operator==(const VideoColors&) const = default;
};

// Returns whether the matrix is one that can be converted.
bool is_known_matrix(int matrix);

// How a frame lies in memory: rows of luma, and below them half as many of chroma, blue and red in turns. That is NV12.
// Samples of more than 8 bits take 16, of which the upper ones count. That is P016.
struct FrameForm {
    Size surface;  // Of luma, with even sides.
    Size shown;    // What of it is the picture, from the left and the top.
    int bits = 8;
    VideoColors colors;
    bool operator==(const FrameForm&) const = default;

    [[nodiscard]] std::size_t sample_bytes() const { return bits > 8 ? 2 : 1; }
    [[nodiscard]] std::size_t bytes() const { return rgb_bytes(surface) / 2 * sample_bytes(); }

    // Returns whether frames of both can be in one array.
    [[nodiscard]] bool fits(const FrameForm& other) const { return surface == other.surface && bits == other.bits; }

    [[nodiscard]] std::string describe() const;
};

// Returns what kernels are told of the colours of samples with so many bits.
cuda::kernels::YuvFactors yuv_factors(const VideoColors& colors, int bits);

// Frames that lie one behind the other on a device.
struct YuvFrames {
    cuda::DevicePointer frames = 0;
    int count = 0;
};

// Converts frames of one form to planes of red, green and blue, which lie one behind the other from `to` on. Chroma
// samples are repeated. The work is done when it returns. Throws CudaError.
void convert_frames(cuda::Device device, cuda::Stream stream, const std::string& kernel_folder,
                    std::span<const YuvFrames> from, const FrameForm& form, bool blue_first, cuda::DevicePointer to);

}  // namespace spdl
