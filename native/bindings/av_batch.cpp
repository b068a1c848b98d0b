#include "bindings/av_batch.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "av/sound_batch.h"
#include "bindings/av_objects.h"
#include "bindings/buffer.h"
#include "bindings/native_call.h"
#include "bindings/python_bytes.h"
#include "core/file_source.h"
#include "core/memory_source.h"

namespace nb = nanobind;

namespace spdl {
namespace {

using Fraction = std::pair<std::int64_t, int>;
using Window = std::pair<std::optional<Fraction>, std::optional<Fraction>>;
using Failures = std::vector<std::pair<std::size_t, std::string>>;

// Strings are paths, everything else is encoded bytes. Both outlive the call.
struct Inputs {
    Inputs(const nb::tuple& objects, const std::vector<Window>& windows) {
        for (std::size_t i = 0; i < objects.size(); ++i) {
            const nb::handle object = objects[i];
            TimeWindow window;
            if (!windows.empty()) {
                window = {moment(windows[i].first), moment(windows[i].second)};
            }
            if (nb::isinstance<nb::str>(object)) {
                const std::string_view path = paths.emplace_back(nb::borrow<nb::str>(object)).get();
                inputs.push_back({[path] { return std::make_unique<FileSource>(path); }, window});
            } else {
                const Bytes content = bytes.emplace_back(object).get();
                inputs.push_back({[content] { return std::make_unique<MemorySource>(content, nullptr); }, window});
            }
        }
    }

    std::vector<SoundInput> inputs;
    std::deque<PythonPath> paths;
    std::deque<PythonBytes> bytes;
};

std::tuple<std::optional<CpuBuffer>, std::vector<std::int64_t>, Failures> load(
    const nb::tuple& objects, const std::vector<Window>& windows, const std::string& filters,
    std::optional<std::size_t> num_frames, std::optional<std::size_t> num_channels, const DemuxOptions& demux,
    const DecodeOptions& decode, int num_threads, bool keep_failed, const nb::object& storage) {
    const Inputs inputs(objects, windows);
    const SoundBatchOptions options{demux, decode, filters, num_frames, num_channels, num_threads, keep_failed};
    const std::optional<Memory> memory = take_memory(storage);
    SoundBatch batch;
    {
        const NativeCall call("load_audio_batch");
        batch = load_sounds(inputs.inputs, options, memory ? &*memory : nullptr);
    }
    Failures failures;
    for (SoundFailure& failure : batch.failures) {
        failures.emplace_back(failure.index, std::move(failure.reason));
    }
    std::optional<CpuBuffer> buffer;
    if (batch.sounds.data != nullptr) {
        buffer.emplace(std::move(batch.sounds));
    }
    return {std::move(buffer), std::move(batch.lengths), std::move(failures)};
}

}  // namespace

void bind_av_batch(nb::module_& module) {
    module.def("load_sounds", &load, nb::kw_only(), nb::arg("sources"), nb::arg("windows"), nb::arg("filters"),
               nb::arg("num_frames").none(), nb::arg("num_channels").none(), nb::arg("demux"), nb::arg("decode"),
               nb::arg("num_threads"), nb::arg("keep_failed"), nb::arg("storage").none());
}

}  // namespace spdl
