#pragma once

#include <cstddef>
#include <string>

#include "cuda/driver.h"

namespace spdl::cuda {

// The part of the interface of NVRTC, the compiler of CUDA C++, that is used here.

enum class CompilerStatus : int { kSuccess = 0, kCompilation = 6 };

using Program = struct ProgramHandle*;

struct Nvrtc {
    const char* (*error_string)(CompilerStatus status);
    CompilerStatus (*version)(int* major, int* minor);
    CompilerStatus (*num_architectures)(int* count);
    CompilerStatus (*architectures)(int* architectures);
    CompilerStatus (*create_program)(Program* program, const char* source, const char* name, int headers,
                                     const char* const* header_texts, const char* const* header_names);
    CompilerStatus (*destroy_program)(Program* program);
    CompilerStatus (*compile)(Program program, int options, const char* const* option_texts);
    CompilerStatus (*log_size)(Program program, std::size_t* size);
    CompilerStatus (*log)(Program program, char* log);
    CompilerStatus (*assembly_size)(Program program, std::size_t* size);
    CompilerStatus (*assembly)(Program program, char* assembly);
    CompilerStatus (*binary_size)(Program program, std::size_t* size);
    CompilerStatus (*binary)(Program program, char* binary);
    std::string path;
};

// Returns the library, which the first call loads. Throws CudaUnavailable, which says what is missing and what to do.
const Nvrtc& nvrtc();

// Returns the compiler's version, such as "12.9".
std::string nvrtc_version();

// Compiles a program for an architecture such as 90, and returns what the driver loads: a binary or, for an
// architecture that is newer than the compiler, assembly (PTX) of the newest that it knows. Throws CudaError with the
// compiler's words.
std::string compile(const char* source, int architecture);

// Returns the program of all kernels, for NVRTC: kernel_arguments.h and kernels.cu, which the build puts into the
// library.
const char* kernel_source();

// The kernels of kernels.cu on one device.
struct Kernels {
    Function convert_planes = nullptr;
    Function filter_pixels = nullptr;
    Function write_canvas = nullptr;
    Function convert_to_planes = nullptr;
    Function convert_to_pixels = nullptr;
};

// Returns the kernels of a device. The first call of a process loads them from `cache_folder`, or compiles them and
// keeps them there: a compilation takes half a second. Throws CudaUnavailable without a compiler.
const Kernels& load_kernels(Device device, const std::string& cache_folder);

// Runs a kernel with a thread for each pixel of `count` images of that size, which is not 0.
void launch(Function kernel, int width, int height, int count, void* arguments, Stream stream, const char* name);

}  // namespace spdl::cuda
