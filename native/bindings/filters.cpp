#include "ffmpeg/filters.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/av_objects.h"
#include "bindings/image_objects.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "core/errors.h"
#include "core/non_copyable.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/frames.h"
#include "ffmpeg/libav.h"

namespace spdl {

void bind_ffmpeg(nanobind::module_& module) {
    module.def("ffmpeg_versions", &ffmpeg_versions);
    module.def("ffmpeg_license", &ffmpeg_license);
    module.def("ffmpeg_filters", &ffmpeg_filters);
    module.def("ffmpeg_log_level", &log_level);
    module.def("set_ffmpeg_log_level", &set_log_level, nanobind::arg("level"));
    module.def("deliver_ffmpeg_log", &deliver_log_lines);
}

}  // namespace spdl

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

// The Python object over a graph, which may hold large frames.
class GraphObject : NonCopyable {
  public:
    explicit GraphObject(std::unique_ptr<FrameGraph> graph) : graph_(std::move(graph)) {}
    ~GraphObject() {
        const ReleasedGil released;
        graph_.reset();
    }

    [[nodiscard]] FrameGraph& get() const { return *graph_; }

    // Images alone come out as images, one by one. Otherwise pictures come out as a video's.
    void note_images() { images_ = true; }
    void note_others() { others_ = true; }
    [[nodiscard]] bool gives_images() const { return images_ && !others_; }

  private:
    std::unique_ptr<FrameGraph> graph_;
    std::atomic<bool> images_ = false;
    std::atomic<bool> others_ = false;
};

std::string quoted_names(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "'" : ", '") + name + "'";
    }
    return text.empty() ? "none" : text;
}

// Returns the index of the name among the graph's ends. Without a name there must be only one end.
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

// Returns the index of an input for such frames.
std::size_t input_for(const FrameGraph& graph, const std::optional<std::string>& key, bool sound) {
    const std::size_t input = index_of(graph.inputs(), key, "input");
    if (graph.takes_sound(input) != sound) {
        throw MediaError("the input '" + graph.inputs()[input] + "' of the FilterGraph takes " +
                         (sound ? "pictures, but the frames are sound: describe the input with get_abuffer_desc"
                                : "sound, but the frames are pictures: describe the input with get_buffer_desc"));
    }
    return input;
}

void add_image(GraphObject& self, FramesObject& object, const std::optional<std::string>& key) {
    FrameGraph& graph = self.get();
    const std::size_t input = input_for(graph, key, false);
    Frames frames = object.take();
    self.note_images();
    run("FilterGraph.add_frames", frames.name, [&] {
        // The frames are dropped when this returns, so filters that write in place need not make a copy.
        const DecodedImage consumed = std::move(frames.image);
        const FfmpegFrame& frame = as_ffmpeg(*consumed.frame);
        graph.add(input, frame.get(), frame.time_base());
    });
}

template <Medium medium>
void add_frames(GraphObject& self, FramesOf<medium>& object, const std::optional<std::string>& key) {
    FrameGraph& graph = self.get();
    const std::size_t input = input_for(graph, key, medium == Medium::kAudio);
    HeldFrames<medium> frames = object.take();
    self.note_others();
    run("FilterGraph.add_frames", frames.name, [&] {
        FrameList consumed = std::move(frames.list);
        for (FramePtr& frame : consumed.frames) {
            // Each is dropped at once, so filters that write in place need not make a copy.
            const FramePtr added = std::move(frame);
            graph.add(input, *added, consumed.time_base);
        }
    });
}

// Returns what an output has ready, as far as it comes by itself: filters that make frames may never end.
FrameList take_ready(FrameGraph& graph, std::size_t output, Medium medium) {
    FrameList list{medium, {}, {0, 1}};
    while (auto found = graph.get(output)) {
        list.frames.push_back(std::move(found->frame));
        list.time_base = found->time_base;
        if (graph.has_sources()) {
            break;
        }
    }
    return list;
}

nb::object get_frames(const GraphObject& self, const std::optional<std::string>& key) {
    FrameGraph& graph = self.get();
    const std::size_t output = index_of(graph.outputs(), key, "output");
    std::string name = graph.outputs()[output] + " of a FilterGraph";
    const bool sound = graph.gives_sound(output);
    if (sound || !self.gives_images()) {
        FrameList list = run("FilterGraph.get_frames", name,
                             [&] { return take_ready(graph, output, sound ? Medium::kAudio : Medium::kVideo); });
        return list.frames.empty() ? nb::none() : wrap_frames(std::move(name), std::move(list));
    }
    std::optional<FrameGraph::Output> found;
    {
        const NativeCall native("FilterGraph.get_frames");
        found = graph.get(output);
    }
    if (!found) {
        return nb::none();
    }
    return nb::cast(wrap_frames(
        std::move(name),
        DecodedImage{std::make_unique<FfmpegFrame>(std::move(found->frame), found->time_base), &ffmpeg_backend}));
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
        .def("__init__", &make_graph, "description"_a)
        .def("inputs", [](const GraphObject& self) { return self.get().inputs(); })
        .def("outputs", [](const GraphObject& self) { return self.get().outputs(); })
        .def("add_frames", &add_image, "frames"_a, "key"_a.none())
        .def("add_frames", &add_frames<Medium::kVideo>, "frames"_a, "key"_a.none())
        .def("add_frames", &add_frames<Medium::kAudio>, "frames"_a, "key"_a.none())
        .def("get_frames", &get_frames, "key"_a.none())
        .def("flush", &flush)
        .def("dump", &dump);
}

}  // namespace spdl
