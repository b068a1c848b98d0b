#include "bindings/gpu_images.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/batch_inputs.h"
#include "bindings/cuda_buffer.h"
#include "bindings/native_call.h"
#include "cuda/kernel_source.h"
#include "cuda/kernels.h"
#include "cuda/nvjpeg.h"
#include "gpu/image_batch.h"

namespace nb = nanobind;

namespace spdl {
namespace {

using Failures = std::vector<std::pair<std::size_t, std::string>>;
using Loaded = std::pair<std::optional<CudaBuffer>, Failures>;

// Returns None if the CPU should load the batch.
std::optional<Loaded> load(const nb::tuple& objects, const LoadOptions& options, const std::vector<BoxSides>& boxes,
                           const RandomCrop* random, std::vector<bool> flips, const DemuxOptions& demux,
                           const DecodeOptions& decode, int num_threads, bool keep_failed, std::size_t least,
                           cuda::Device device, std::uintptr_t stream, const nb::object& allocator,
                           std::string kernel_folder) {
    const Inputs inputs(objects);
    const CropsAndFlips crops = make_crops(boxes, random, std::move(flips), nullptr);
    const BatchOptions batch{demux, decode, num_threads, keep_failed};
    const GpuTarget target{device, stream_of(stream), std::move(kernel_folder),
                           make_allocator(allocator, device, stream)};
    std::optional<GpuBatch> loaded;
    {
        const NativeCall native("load_image_batch");
        loaded = load_batch_on_gpu(inputs.inputs, options, crops, batch, least, target);
    }
    if (!loaded) {
        return std::nullopt;
    }
    Loaded result;
    for (Failure& failure : loaded->failures) {
        result.second.emplace_back(failure.index, std::move(failure.reason));
    }
    if (loaded->memory.pointer != 0) {
        result.first = CudaBuffer{std::move(loaded->memory.owner),
                                  loaded->memory.pointer,
                                  std::move(loaded->shape),
                                  options.format.type(),
                                  device,
                                  stream,
                                  {nb::tuple(), std::move(loaded->backends)}};
    }
    return result;
}

// Throws what keeps images from being decoded on a device.
void prepare(cuda::Device device, const std::string& kernel_folder) {
    const NativeCall native("prepare kernels");
    cuda::nvjpeg();
    cuda::load_kernels(device, kernel_folder);
}

}  // namespace

void bind_gpu_images(nb::module_& module) {
    module.def("load_batch_on_gpu", &load, nb::kw_only(), nb::arg("sources"), nb::arg("request"), nb::arg("boxes"),
               nb::arg("random").none(), nb::arg("flips"), nb::arg("demux"), nb::arg("decode"), nb::arg("num_threads"),
               nb::arg("keep_failed"), nb::arg("least"), nb::arg("device"), nb::arg("stream"),
               nb::arg("allocator").none(), nb::arg("kernel_folder"));
    module.def("prepare_gpu_images", &prepare, nb::arg("device"), nb::arg("kernel_folder"));
    module.def("kernel_source", &cuda::kernel_source);
}

}  // namespace spdl
