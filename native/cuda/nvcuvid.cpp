#include "cuda/nvcuvid.h"

#include "cuda/library.h"

namespace spdl::cuda {
namespace {

Nvcuvid load() {
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
    static const Nvcuvid instance = load();
    return instance;
}

}  // namespace spdl::cuda
