#pragma once

#include <cstddef>
#include <string>

#include "cuda/driver.h"

// The part of nvJPEG's interface that is used here. The declarations are ours, as those of the driver.
namespace spdl::cuda {

enum class JpegStatus : int {
    kSuccess = 0,
    kNotInitialized = 1,
    kInvalidParameter = 2,
    kBadJpeg = 3,
    kJpegNotSupported = 4,
    kAllocatorFailure = 5,
    kExecutionFailed = 6,
    kArchitectureMismatch = 7,
    kInternalError = 8,
    kImplementationNotSupported = 9,
    kIncompleteBitstream = 10,
};

enum class JpegBackend : int {
    kGpuHybrid = 2,  // The processor and kernels decode.
    kHardware = 3,   // The JPEG engine of the chip decodes; not every chip has one.
};

enum class JpegOutput : int {
    kUnchanged = 0,  // Planes as they are stored: luma, and chroma if there is any.
};

using JpegHandle = struct JpegHandleHandle*;
using JpegState = struct JpegStateHandle*;
using JpegStream = struct JpegStreamHandle*;

// nvjpegImage_t.
struct JpegPlanes {
    unsigned char* plane[4] = {};
    std::size_t pitch[4] = {};
};

struct NvJpeg {
    JpegStatus (*property)(int type, int* value);  // 0, 1 and 2 are major, minor and patch.
    JpegStatus (*create)(JpegBackend backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                         JpegHandle* handle);
    JpegStatus (*destroy)(JpegHandle handle);
    JpegStatus (*create_state)(JpegHandle handle, JpegState* state);
    JpegStatus (*destroy_state)(JpegState state);
    JpegStatus (*create_stream)(JpegHandle handle, JpegStream* stream);
    JpegStatus (*destroy_stream)(JpegStream stream);
    JpegStatus (*parse_header)(JpegHandle handle, const unsigned char* data, std::size_t length, JpegStream stream);
    JpegStatus (*batch_supports)(JpegHandle handle, JpegStream stream, int* unsupported);  // 0 says that it does.
    JpegStatus (*begin_batch)(JpegHandle handle, JpegState state, int images, int max_cpu_threads, JpegOutput output);
    JpegStatus (*decode_batch)(JpegHandle handle, JpegState state, const unsigned char* const* data,
                               const std::size_t* lengths, JpegPlanes* images, Stream stream);
    std::string path;
};

// Returns the library, which the first call loads. Throws CudaUnavailable, which says what is missing and what to do.
const NvJpeg& nvjpeg();

// Returns the library's version, such as "12.4.0".
std::string nvjpeg_version();

// Throws CudaError unless the named call succeeded; `what` says what the call was for.
void check(JpegStatus status, const char* call, const std::string& what);

}  // namespace spdl::cuda
