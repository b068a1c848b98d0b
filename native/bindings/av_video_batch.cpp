#include "bindings/av_video_batch.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "av/video_batch.h"
#include "bindings/av_objects.h"
#include "bindings/buffer.h"
#include "bindings/native_call.h"
#include "bindings/python_bytes.h"

namespace nb = nanobind;

namespace spdl {
namespace {

using Fraction = std::optional<std::pair<std::int64_t, int>>;
using Window = std::pair<Fraction, Fraction>;
using Failures = std::vector<std::pair<std::size_t, std::string>>;

// Strings are paths, everything else is encoded bytes.
std::tuple<std::optional<CpuBuffer>, std::vector<std::size_t>, Failures> load(
    const nb::tuple& sources, const std::vector<Window>& windows, const LoadOptions& options, std::size_t num_frames,
    bool spread, double rate, std::size_t step, const DemuxOptions& demux, const DecodeOptions& decode, int num_threads,
    bool keep_failed, const nb::object& storage) {
    std::deque<PythonPath> paths;
    std::deque<PythonBytes> bytes;
    std::vector<VideoInput> inputs;
    for (std::size_t i = 0; i < windows.size(); ++i) {
        const nb::handle source = sources[i];
        const TimeWindow window{moment(windows[i].first), moment(windows[i].second)};
        if (nb::isinstance<nb::str>(source)) {
            inputs.push_back({paths.emplace_back(nb::borrow<nb::str>(source)).get(), {}, window});
        } else {
            inputs.push_back({{}, bytes.emplace_back(source).get(), window});
        }
    }
    const std::optional<Memory> memory = take_memory(storage);
    VideoBatch batch;
    {
        const NativeCall call("load_video_batch");
        const VideoBatchOptions batch_options{
            demux, decode, {num_frames, spread, rate, step}, num_threads, keep_failed};
        batch = load_video_batch(inputs, options, batch_options, memory ? &*memory : nullptr);
    }
    std::optional<CpuBuffer> buffer;
    if (batch.clips.data != nullptr) {
        buffer.emplace(std::move(batch.clips));
    }
    return {std::move(buffer), std::move(batch.lengths), std::move(batch.failures)};
}

}  // namespace

void bind_av_video_batch(nb::module_& module) {
    module.def("load_video_batch", &load, nb::kw_only(), nb::arg("sources"), nb::arg("windows"), nb::arg("request"),
               nb::arg("num_frames"), nb::arg("spread"), nb::arg("rate"), nb::arg("step"), nb::arg("demux"),
               nb::arg("decode"), nb::arg("num_threads"), nb::arg("keep_failed"), nb::arg("storage").none());
}

}  // namespace spdl
