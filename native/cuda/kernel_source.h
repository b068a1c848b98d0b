#pragma once

namespace spdl::cuda {

// Returns the program of all kernels, for NVRTC: kernel_arguments.h and kernels.cu, which the build puts into the
// library.
const char* kernel_source();

}  // namespace spdl::cuda
