#include "bindings/batch.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/batch_inputs.h"
#include "bindings/buffer.h"
#include "bindings/native_call.h"
#include "bindings/python_bytes.h"
#include "core/parallel.h"
#include "image/load/batch.h"
#include "image/load/resize_pixels.h"
#include "image/write/picture_array.h"

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

// Pictures that an array of bytes or floats shows, (N, C, H, W) with any strides. Created and destroyed with the GIL
// held.
class PictureView {
  public:
    explicit PictureView(nb::handle array) {
        if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_STRIDED_RO) != 0) {
            throw nb::python_error();
        }
    }
    PictureView(const PictureView&) = delete;
    PictureView& operator=(const PictureView&) = delete;
    ~PictureView() { PyBuffer_Release(&view_); }

    [[nodiscard]] PictureArray get() const {
        PictureArray pictures{static_cast<const std::uint8_t*>(view_.buf), {}, {}, view_.itemsize == sizeof(float)};
        if (view_.ndim != static_cast<int>(pictures.shape.size())) {
            throw nb::value_error("pictures have four sides");
        }
        std::copy_n(view_.shape, view_.ndim, pictures.shape.begin());
        std::copy_n(view_.strides, view_.ndim, pictures.strides.begin());
        return pictures;
    }

  private:
    Py_buffer view_{};
};

// Returns for each array whether its floats are those of pictures.
std::vector<bool> write_each(const nb::tuple& arrays, const LoadOptions& options, const PerChannel& scale,
                             const nb::tuple& results, int num_threads) {
    std::deque<PictureView> views;
    std::vector<PictureArray> pictures;
    std::vector<Memory> memory;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        pictures.push_back(views.emplace_back(arrays[i]).get());
        memory.push_back(*take_memory(nb::borrow(results[i])));
        if (memory.back().size != pictures.back().size() * options.format.element()) {
            throw nb::value_error("the memory does not fit the pictures");
        }
    }
    // Not of bool: threads write to it.
    std::vector<char> in_range(pictures.size());
    {
        const NativeCall native("write pictures");
        run_parallel(num_threads, 0, pictures.size(), [&](std::size_t i) {
            in_range[i] = static_cast<char>(write_pictures(pictures[i], options.format, scale, memory[i].data));
        });
    }
    return {in_range.begin(), in_range.end()};
}

}  // namespace

void bind_batch(nb::module_& module) {
    module.def("resize", &resize, nb::arg("pixels"), nb::arg("size"), nb::arg("request"), nb::arg("result"));
    module.def("write_pictures", &write_each, nb::kw_only(), nb::arg("arrays"), nb::arg("request"), nb::arg("scale"),
               nb::arg("results"), nb::arg("num_threads"));
    module.def("load_batch", &load, nb::kw_only(), nb::arg("sources"), nb::arg("request"), nb::arg("boxes"),
               nb::arg("random").none(), nb::arg("flips"), nb::arg("jitter").none(), nb::arg("demux"),
               nb::arg("decode"), nb::arg("num_threads"), nb::arg("keep_failed"), nb::arg("storage").none());
}

}  // namespace spdl
