#pragma once

#include <span>
#include <string>

#include "core/geometry.h"
#include "cuda/device.h"

namespace spdl {

// How the colours of a video are coded, by the numbers of ITU-T H.273.
struct VideoColors {
    int matrix = 1;           // 1: BT.709; 5 and 6: BT.601; 9: BT.2020; also 4 and 7.
    bool full_range = false;  // Whether luma goes from 0 to 255, and not from 16 to 235.
};

// Returns whether the matrix is one that can be converted.
bool is_known_matrix(int matrix);

// Frames in NV12 that lie one behind the other on a device.
struct Nv12Frames {
    cuda::DevicePointer frames = 0;
    int count = 0;
};

// Converts frames of one size to planes of red, green and blue, which lie one behind the other from `to` on. Chroma
// samples are repeated. The sides are even. The work is done when it returns. Throws CudaError.
void convert_nv12(cuda::Device device, cuda::Stream stream, const std::string& kernel_folder,
                  std::span<const Nv12Frames> from, Size size, const VideoColors& colors, bool blue_first,
                  cuda::DevicePointer to);

}  // namespace spdl
