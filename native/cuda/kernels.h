#pragma once

#include <string>

#include "cuda/driver.h"

namespace spdl::cuda {

// The kernels of kernels.cu on one device.
struct Kernels {
    Function convert_planes = nullptr;
    Function filter_pixels = nullptr;
    Function write_canvas = nullptr;
    Function convert_to_planes = nullptr;
    Function convert_to_pixels = nullptr;
};

// Returns the kernels of a device. The first call of a process loads them from `cache_folder`, or compiles them and
// keeps them there: a compilation takes half a second. Throws CudaUnavailable if there is no compiler.
const Kernels& load_kernels(Device device, const std::string& cache_folder);

// Runs a kernel with a thread for each pixel of `count` images of that size, which is not 0.
void launch(Function kernel, int width, int height, int count, void* arguments, Stream stream, const char* name);

}  // namespace spdl::cuda
