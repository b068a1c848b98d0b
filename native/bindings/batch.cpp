#include "bindings/batch.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/batch_inputs.h"
#include "bindings/buffer.h"
#include "bindings/native_call.h"
#include "bindings/python_bytes.h"
#include "image/load/batch.h"
#include "image/load/resize_pixels.h"

namespace nb = nanobind;

namespace spdl {
namespace {

using Failures = std::vector<std::pair<std::size_t, std::string>>;
std::pair<std::optional<CpuBuffer>, Failures> load(const nb::tuple& objects, const LoadOptions& options,
                                                   const std::vector<BoxSides>& boxes, const RandomCrop* random,
                                                   std::vector<bool> flips, const ColorJitter* jitter,
                                                   const DemuxOptions& demux, const DecodeOptions& decode,
                                                   int num_threads, bool keep_failed, const nb::object& storage) {
    const Inputs inputs(objects);
    const CropsAndFlips crops = make_crops(boxes, random, std::move(flips), jitter);
    const BatchOptions batch_options{demux, decode, num_threads, keep_failed};
    const std::optional<Memory> memory = take_memory(storage);
    Batch batch;
    {
        const NativeCall native("load_image_batch");
        batch = load_batch(inputs.inputs, options, crops, batch_options, memory ? &*memory : nullptr);
    }
    Failures failures;
    for (Failure& failure : batch.failures) {
        failures.emplace_back(failure.index, std::move(failure.reason));
    }
    std::optional<CpuBuffer> buffer;
    if (batch.images.data != nullptr) {
        buffer.emplace(std::move(batch.images));
        buffer->report.backends = std::move(batch.backends);
    }
    return {std::move(buffer), std::move(failures)};
}

void resize(nb::handle pixels, std::pair<int, int> size, const LoadOptions& options, const nb::object& result) {
    const PythonBytes input(pixels);
    const std::optional<Memory> memory = take_memory(result);
    const Size from{size.first, size.second};
    if (from.width < 1 || from.height < 1 || !memory || input.get().size() != rgb_bytes(from) ||
        memory->size != options.format.image_bytes(options.target)) {
        throw nb::value_error("the memory does not fit the sizes");
    }
    const NativeCall native("resize");
    resize_pixels(input.get(), from, options, memory->data);
}

}  // namespace

void bind_batch(nb::module_& module) {
    module.def("resize", &resize, nb::arg("pixels"), nb::arg("size"), nb::arg("request"), nb::arg("result"));
    module.def("load_batch", &load, nb::kw_only(), nb::arg("sources"), nb::arg("request"), nb::arg("boxes"),
               nb::arg("random").none(), nb::arg("flips"), nb::arg("jitter").none(), nb::arg("demux"),
               nb::arg("decode"), nb::arg("num_threads"), nb::arg("keep_failed"), nb::arg("storage").none());
}

}  // namespace spdl
