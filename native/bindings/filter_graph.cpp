#include "bindings/filter_graph.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/frames.h"
#include "bindings/gil.h"
#include "bindings/native_call.h"
#include "ffmpeg/ffmpeg_backend.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/frame_graph.h"

namespace nb = nanobind;

namespace spdl {
namespace {

// The Python object over a graph, which may hold large frames.
class GraphObject {
  public:
    explicit GraphObject(std::unique_ptr<FrameGraph> graph) : graph_(std::move(graph)) {}
    GraphObject(const GraphObject&) = delete;
    GraphObject& operator=(const GraphObject&) = delete;
    ~GraphObject() {
        const ReleasedGil released;
        graph_.reset();
    }

    [[nodiscard]] FrameGraph& get() const { return *graph_; }

  private:
    std::unique_ptr<FrameGraph> graph_;
};

std::string quoted_names(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "'" : ", '") + name + "'";
    }
    return text.empty() ? "none" : text;
}

// Returns the index of the name among those of the graph's ends. Without a name there must be only one end.
std::size_t index_of(const std::vector<std::string>& names, const std::optional<std::string>& key, const char* end) {
    if (!key && names.size() == 1) {
        return 0;
    }
    if (key) {
        const auto found = std::ranges::find(names, *key);
        if (found != names.end()) {
            return static_cast<std::size_t>(found - names.begin());
        }
    }
    throw nb::value_error(("`key` must be the name of one of the graph's " + std::string(end) + "s, " +
                           quoted_names(names) + ", got " + (key ? "'" + *key + "'" : "None"))
                              .c_str());
}

void make_graph(GraphObject* self, const std::string& description) {
    std::unique_ptr<FrameGraph> graph;
    {
        const NativeCall native("FilterGraph");
        graph = std::make_unique<FrameGraph>(description);
    }
    new (self) GraphObject(std::move(graph));
}

void add_frames(const GraphObject& self, FramesObject& object, const std::optional<std::string>& key) {
    FrameGraph& graph = self.get();
    const std::size_t input = index_of(graph.inputs(), key, "input");
    Frames frames = object.take();
    run("FilterGraph.add_frames", frames.name, [&] {
        // The frames are dropped when this returns, so filters that write in place need not make a copy.
        const DecodedImage consumed = std::move(frames.image);
        const FfmpegFrame& frame = as_ffmpeg(*consumed.frame);
        graph.add(input, frame.get(), frame.time_base());
    });
}

std::optional<FramesObject> get_frames(const GraphObject& self, const std::optional<std::string>& key) {
    FrameGraph& graph = self.get();
    const std::size_t output = index_of(graph.outputs(), key, "output");
    std::optional<FrameGraph::Output> found;
    {
        const NativeCall native("FilterGraph.get_frames");
        found = graph.get(output);
    }
    if (!found) {
        return std::nullopt;
    }
    return wrap_frames(graph.outputs()[output] + " of a FilterGraph",
                       {std::make_unique<FfmpegFrame>(std::move(found->frame), found->time_base), &ffmpeg_backend});
}

void flush(const GraphObject& self) {
    const NativeCall native("FilterGraph.flush");
    self.get().flush();
}

std::string dump(const GraphObject& self) {
    const NativeCall native("FilterGraph.dump");
    return self.get().dump();
}

}  // namespace

void bind_filter_graph(nb::module_& module) {
    nb::class_<GraphObject>(module, "FilterGraph")
        .def("__init__", &make_graph, nb::arg("description"))
        .def("inputs", [](const GraphObject& self) { return self.get().inputs(); })
        .def("outputs", [](const GraphObject& self) { return self.get().outputs(); })
        .def("add_frames", &add_frames, nb::arg("frames"), nb::arg("key").none())
        .def("get_frames", &get_frames, nb::arg("key").none())
        .def("flush", &flush)
        .def("dump", &dump);
}

}  // namespace spdl
