// The header includes some of CUDA's runtime, of which it uses these types only. The package of the runtime's headers
// lacks some that these include.
#include <stddef.h>
#define __CUDA_RUNTIME_API_H__
typedef struct CUstream_st* cudaStream_t;

#include <nvjpeg.h>

#include "alike.h"
#include "cuda/nvjpeg.h"

using spdl::cuda::JpegBackend;
using spdl::cuda::JpegOutput;
using spdl::cuda::JpegPlanes;
using spdl::cuda::JpegStatus;
using spdl::cuda::NvJpeg;

SAME_FUNCTION(NvJpeg, property, nvjpegGetProperty);
SAME_FUNCTION(NvJpeg, create, nvjpegCreateEx);
SAME_FUNCTION(NvJpeg, destroy, nvjpegDestroy);
SAME_FUNCTION(NvJpeg, create_state, nvjpegJpegStateCreate);
SAME_FUNCTION(NvJpeg, destroy_state, nvjpegJpegStateDestroy);
SAME_FUNCTION(NvJpeg, create_stream, nvjpegJpegStreamCreate);
SAME_FUNCTION(NvJpeg, destroy_stream, nvjpegJpegStreamDestroy);
SAME_FUNCTION(NvJpeg, parse_header, nvjpegJpegStreamParseHeader);
SAME_FUNCTION(NvJpeg, batch_supports, nvjpegDecodeBatchedSupported);
SAME_FUNCTION(NvJpeg, begin_batch, nvjpegDecodeBatchedInitialize);
SAME_FUNCTION(NvJpeg, decode_batch, nvjpegDecodeBatched);

SAME_VALUE(JpegStatus::kSuccess, NVJPEG_STATUS_SUCCESS);
SAME_VALUE(JpegStatus::kNotInitialized, NVJPEG_STATUS_NOT_INITIALIZED);
SAME_VALUE(JpegStatus::kInvalidParameter, NVJPEG_STATUS_INVALID_PARAMETER);
SAME_VALUE(JpegStatus::kBadJpeg, NVJPEG_STATUS_BAD_JPEG);
SAME_VALUE(JpegStatus::kJpegNotSupported, NVJPEG_STATUS_JPEG_NOT_SUPPORTED);
SAME_VALUE(JpegStatus::kAllocatorFailure, NVJPEG_STATUS_ALLOCATOR_FAILURE);
SAME_VALUE(JpegStatus::kExecutionFailed, NVJPEG_STATUS_EXECUTION_FAILED);
SAME_VALUE(JpegStatus::kArchitectureMismatch, NVJPEG_STATUS_ARCH_MISMATCH);
SAME_VALUE(JpegStatus::kInternalError, NVJPEG_STATUS_INTERNAL_ERROR);
SAME_VALUE(JpegStatus::kImplementationNotSupported, NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED);
SAME_VALUE(JpegStatus::kIncompleteBitstream, NVJPEG_STATUS_INCOMPLETE_BITSTREAM);
SAME_VALUE(JpegBackend::kGpuHybrid, NVJPEG_BACKEND_GPU_HYBRID);
SAME_VALUE(JpegBackend::kHardware, NVJPEG_BACKEND_HARDWARE);
SAME_VALUE(JpegOutput::kUnchanged, NVJPEG_OUTPUT_UNCHANGED);
SAME_VALUE(MAJOR_VERSION, 0);
SAME_VALUE(MINOR_VERSION, 1);
SAME_VALUE(PATCH_LEVEL, 2);

SAME_SIZE(JpegPlanes, nvjpegImage_t);
SAME_FIELD(JpegPlanes, plane, nvjpegImage_t, channel);
SAME_FIELD(JpegPlanes, pitch, nvjpegImage_t, pitch);
