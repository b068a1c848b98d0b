#include "cuda/media_libraries.h"

namespace spdl::cuda {
namespace {

Nvcuvid load_nvcuvid() {
    const Library library({"NVDEC's library",
                           "SPDL_TEST_NVCUVID",
                           {"libnvcuvid.so.1"},
                           {},
                           "It comes with NVIDIA's driver. A container gets it if NVIDIA_DRIVER_CAPABILITIES contains "
                           "\"video\" (docker run "
                           "--gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility,video)",
                           "update NVIDIA's driver to release 525 or newer"});
    Nvcuvid api{};
    library.find("cuvidGetDecoderCaps", api.capabilities);
    library.find("cuvidCreateDecoder", api.create_decoder);
    library.find("cuvidDestroyDecoder", api.destroy_decoder);
    library.find("cuvidDecodePicture", api.decode);
    library.find("cuvidGetDecodeStatus", api.decode_status);
    library.find("cuvidReconfigureDecoder", api.reconfigure);
    library.find("cuvidMapVideoFrame64", api.map);
    library.find("cuvidUnmapVideoFrame64", api.unmap);
    library.find("cuvidCreateVideoParser", api.create_parser);
    library.find("cuvidParseVideoData", api.parse);
    library.find("cuvidDestroyVideoParser", api.destroy_parser);
    api.path = library.path();
    return api;
}

}  // namespace

const Nvcuvid& nvcuvid() {
    driver();
    // If this throws, the next call tries again.
    static const Nvcuvid instance = load_nvcuvid();
    return instance;
}

namespace {

NvJpeg load_nvjpeg() {
    const Library library({"nvJPEG",
                           "SPDL_TEST_NVJPEG",
                           toolkit_files("libnvjpeg"),
                           {"nvjpeg/lib", "cu13/lib", "targets/x86_64-linux/lib", "lib64"},
                           "It comes with torchvision for CUDA, with CUDA's toolkit, and with the package "
                           "nvidia-nvjpeg-cu12 (for CUDA 13: "
                           "nvidia-nvjpeg), which you "
                           "can install with pip",
                           "it is older than CUDA 12; install the package nvidia-nvjpeg-cu12"});
    NvJpeg api{};
    library.find("nvjpegGetProperty", api.property);
    library.find("nvjpegCreateEx", api.create);
    library.find("nvjpegDestroy", api.destroy);
    library.find("nvjpegJpegStateCreate", api.create_state);
    library.find("nvjpegJpegStateDestroy", api.destroy_state);
    library.find("nvjpegJpegStreamCreate", api.create_stream);
    library.find("nvjpegJpegStreamDestroy", api.destroy_stream);
    library.find("nvjpegJpegStreamParseHeader", api.parse_header);
    library.find("nvjpegDecodeBatchedSupported", api.batch_supports);
    library.find("nvjpegDecodeBatchedInitialize", api.begin_batch);
    library.find("nvjpegDecodeBatched", api.decode_batch);
    api.path = library.path();
    return api;
}

// The library has no function that describes a status.
const char* describe(JpegStatus status) {
    switch (status) {
        case JpegStatus::kSuccess:
            return "NVJPEG_STATUS_SUCCESS";
        case JpegStatus::kNotInitialized:
            return "NVJPEG_STATUS_NOT_INITIALIZED";
        case JpegStatus::kInvalidParameter:
            return "NVJPEG_STATUS_INVALID_PARAMETER";
        case JpegStatus::kBadJpeg:
            return "NVJPEG_STATUS_BAD_JPEG (the data is damaged)";
        case JpegStatus::kJpegNotSupported:
            return "NVJPEG_STATUS_JPEG_NOT_SUPPORTED (it does not decode this kind of JPEG)";
        case JpegStatus::kAllocatorFailure:
            return "NVJPEG_STATUS_ALLOCATOR_FAILURE (out of memory): use smaller batches, or free what others use";
        case JpegStatus::kExecutionFailed:
            return "NVJPEG_STATUS_EXECUTION_FAILED (a kernel failed)";
        case JpegStatus::kArchitectureMismatch:
            return "NVJPEG_STATUS_ARCH_MISMATCH (it was not built for this GPU)";
        case JpegStatus::kInternalError:
            return "NVJPEG_STATUS_INTERNAL_ERROR";
        case JpegStatus::kImplementationNotSupported:
            return "NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED (this GPU has no such decoder)";
        case JpegStatus::kIncompleteBitstream:
            return "NVJPEG_STATUS_INCOMPLETE_BITSTREAM (the data is truncated)";
    }
    return "an unknown status";
}

}  // namespace

const NvJpeg& nvjpeg() {
    // Throws without a driver, or after a fork.
    driver();
    // If this throws, the next call tries again.
    static const NvJpeg instance = load_nvjpeg();
    return instance;
}

std::string nvjpeg_version() {
    constexpr int kParts = 3;
    std::string version;
    for (int part = 0; part < kParts; ++part) {
        int value = 0;
        check(nvjpeg().property(part, &value), "nvjpegGetProperty", "asking for nvJPEG's version");
        version += part == 0 ? "" : ".";
        version += std::to_string(value);
    }
    return version;
}

void check(JpegStatus status, const char* call, const std::string& what) {
    if (status != JpegStatus::kSuccess) {
        throw CudaError(what + " failed: " + call + " returned " + std::to_string(static_cast<int>(status)) + ", " +
                        describe(status));
    }
}

}  // namespace spdl::cuda
