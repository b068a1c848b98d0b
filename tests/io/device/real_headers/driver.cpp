#include <cuda.h>

#include "alike.h"
#include "cuda/driver.h"

using spdl::cuda::Copy2d;
using spdl::cuda::Driver;
using spdl::cuda::PoolProperties;
using spdl::cuda::Status;

SAME_FUNCTION(Driver, init, cuInit);
SAME_FUNCTION(Driver, error_name, cuGetErrorName);
SAME_FUNCTION(Driver, error_string, cuGetErrorString);
SAME_FUNCTION(Driver, version, cuDriverGetVersion);
SAME_FUNCTION(Driver, device_count, cuDeviceGetCount);
SAME_FUNCTION(Driver, device_name, cuDeviceGetName);
SAME_FUNCTION(Driver, device_attribute, cuDeviceGetAttribute);
SAME_FUNCTION(Driver, retain_primary_context, cuDevicePrimaryCtxRetain);
SAME_FUNCTION(Driver, primary_context_state, cuDevicePrimaryCtxGetState);
SAME_FUNCTION(Driver, current_device, cuCtxGetDevice);
SAME_FUNCTION(Driver, push_context, cuCtxPushCurrent);
SAME_FUNCTION(Driver, pop_context, cuCtxPopCurrent);
SAME_FUNCTION(Driver, allocate_pinned, cuMemHostAlloc);
SAME_FUNCTION(Driver, free_pinned, cuMemFreeHost);
SAME_FUNCTION(Driver, create_pool, cuMemPoolCreate);
SAME_FUNCTION(Driver, set_pool_attribute, cuMemPoolSetAttribute);
SAME_FUNCTION(Driver, allocate_from_pool, cuMemAllocFromPoolAsync);
SAME_FUNCTION(Driver, free_in_order, cuMemFreeAsync);
SAME_FUNCTION(Driver, allocate, cuMemAlloc);
SAME_FUNCTION(Driver, free, cuMemFree);
SAME_FUNCTION(Driver, copy_to_device, cuMemcpyHtoDAsync);
SAME_FUNCTION(Driver, copy_to_host, cuMemcpyDtoHAsync);
SAME_FUNCTION(Driver, copy_2d, cuMemcpy2DAsync);
SAME_FUNCTION(Driver, load_module, cuModuleLoadData);
SAME_FUNCTION(Driver, find_function, cuModuleGetFunction);
SAME_FUNCTION(Driver, launch, cuLaunchKernel);
SAME_FUNCTION(Driver, create_event, cuEventCreate);
SAME_FUNCTION(Driver, record_event, cuEventRecord);
SAME_FUNCTION(Driver, wait_for_event, cuEventSynchronize);
SAME_FUNCTION(Driver, destroy_event, cuEventDestroy);
SAME_FUNCTION(Driver, stream_waits_for_event, cuStreamWaitEvent);
SAME_FUNCTION(Driver, wait_for_stream, cuStreamSynchronize);

SAME_VALUE(Status::kSuccess, CUDA_SUCCESS);
SAME_VALUE(Status::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(Status::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(Status::kNoDevice, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(Status::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(Status::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(Status::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);

SAME_VALUE(spdl::cuda::kPortable, CU_MEMHOSTALLOC_PORTABLE);
SAME_VALUE(spdl::cuda::kQuietEvent, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
SAME_VALUE(spdl::cuda::kMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME_VALUE(spdl::cuda::kMajorOfArchitecture, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(spdl::cuda::kMinorOfArchitecture, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(spdl::cuda::kReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME_VALUE(PoolProperties{}.allocation_type, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(PoolProperties{}.location_type, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(PoolProperties{}.handle_types, CU_MEM_HANDLE_TYPE_NONE);
SAME_VALUE(Copy2d{}.from_type, CU_MEMORYTYPE_DEVICE);

SAME_SIZE(PoolProperties, CUmemPoolProps);
SAME_FIELD(PoolProperties, allocation_type, CUmemPoolProps, allocType);
SAME_FIELD(PoolProperties, handle_types, CUmemPoolProps, handleTypes);
SAME_FIELD(PoolProperties, location_type, CUmemPoolProps, location.type);
SAME_FIELD(PoolProperties, device, CUmemPoolProps, location.id);
SAME_FIELD(PoolProperties, security, CUmemPoolProps, win32SecurityAttributes);

SAME_SIZE(Copy2d, CUDA_MEMCPY2D);
SAME_FIELD(Copy2d, from_x, CUDA_MEMCPY2D, srcXInBytes);
SAME_FIELD(Copy2d, from_y, CUDA_MEMCPY2D, srcY);
SAME_FIELD(Copy2d, from_type, CUDA_MEMCPY2D, srcMemoryType);
SAME_FIELD(Copy2d, from_host, CUDA_MEMCPY2D, srcHost);
SAME_FIELD(Copy2d, from, CUDA_MEMCPY2D, srcDevice);
SAME_FIELD(Copy2d, from_array, CUDA_MEMCPY2D, srcArray);
SAME_FIELD(Copy2d, from_pitch, CUDA_MEMCPY2D, srcPitch);
SAME_FIELD(Copy2d, to_x, CUDA_MEMCPY2D, dstXInBytes);
SAME_FIELD(Copy2d, to_y, CUDA_MEMCPY2D, dstY);
SAME_FIELD(Copy2d, to_type, CUDA_MEMCPY2D, dstMemoryType);
SAME_FIELD(Copy2d, to_host, CUDA_MEMCPY2D, dstHost);
SAME_FIELD(Copy2d, to, CUDA_MEMCPY2D, dstDevice);
SAME_FIELD(Copy2d, to_array, CUDA_MEMCPY2D, dstArray);
SAME_FIELD(Copy2d, to_pitch, CUDA_MEMCPY2D, dstPitch);
SAME_FIELD(Copy2d, width_bytes, CUDA_MEMCPY2D, WidthInBytes);
SAME_FIELD(Copy2d, height, CUDA_MEMCPY2D, Height);
