#include "bindings/av_demuxer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "av/container.h"
#include "av/demux_window.h"
#include "av/sound_extent.h"
#include "av/sound_feed.h"
#include "bindings/av_objects.h"
#include "bindings/frames.h"
#include "bindings/python_bytes.h"
#include "bindings/python_source.h"
#include "core/file_source.h"
#include "core/memory_source.h"

namespace nb = nanobind;

namespace spdl {
namespace {

using Fraction = std::pair<std::int64_t, int>;

Probing probing(bool packets_only) {
    return packets_only ? Probing::kPackets : Probing::kAll;
}

void open_path(DemuxerObject* self, nb::str path, std::string name, const DemuxOptions& options, bool packets_only) {
    const PythonPath encoded(std::move(path));
    auto source = run("Demuxer", name, [&] { return std::make_unique<FileSource>(encoded.get()); });
    new (self) DemuxerObject(std::move(name), std::move(source), options, probing(packets_only));
}

void open_bytes(DemuxerObject* self, nb::handle bytes, std::string name, const DemuxOptions& options,
                bool packets_only) {
    // The last owner may drop it without the GIL.
    const std::shared_ptr<PythonBytes> held(new PythonBytes(bytes), [](PythonBytes* object) {
        const nb::gil_scoped_acquire acquired;
        delete object;
    });
    new (self) DemuxerObject(std::move(name), std::make_unique<MemorySource>(held->get(), held), options,
                             probing(packets_only));
}

void open_file(DemuxerObject* self, nb::object file, std::string name, const DemuxOptions& options, bool packets_only,
               bool costly) {
    new (self) DemuxerObject(std::move(name), std::make_unique<PythonSource>(std::move(file)), options,
                             probing(packets_only), costly);
}

std::optional<int> best_stream(DemuxerObject& self, bool audio) {
    return self.use("Demuxer.best_stream", [&](Container& container) {
        return container.best_stream(audio ? Medium::kAudio : Medium::kVideo);
    });
}

nb::object codec(DemuxerObject& self, int index) {
    std::shared_ptr<const Stream> stream =
        self.use("Demuxer.codec", [&](Container& container) { return container.stream(index); });
    if (stream->medium == Medium::kAudio) {
        return nb::cast(Codec<Medium::kAudio>{std::move(stream)});
    }
    return nb::cast(Codec<Medium::kVideo>{std::move(stream)});
}

nb::object demux(DemuxerObject& self, int index, const std::optional<Fraction>& start,
                 const std::optional<Fraction>& end, bool counts_samples) {
    PacketList list = self.use("Demuxer.demux", [&](Container& container) {
        const TimeWindow window{moment(start), moment(end)};
        const bool sound = (counts_samples || !window.whole()) && container.stream(index)->medium == Medium::kAudio;
        return sound ? demux_sound(container, index, window) : demux_window(container, index, window);
    });
    return wrap_packets(self.name(), std::move(list));
}

// Returns what read_some() is to be given.
std::uint64_t select(DemuxerObject& self, const std::set<int>& indices) {
    return self.use("streaming_demux", [&](Container& container) {
        for (const int index : indices) {
            static_cast<void>(container.stream(index));
        }
        container.select(indices);
        container.rewind();
        return container.generation();
    });
}

// Returns how long a packet lasts, in seconds.
double duration_of(const AVPacket& packet, const Stream& stream) {
    if (packet.duration > 0) {
        return stream.seconds(packet.duration);
    }
    return stream.frame_rate.num > 0 ? av_q2d(av_inv_q(stream.frame_rate)) : 0;
}

// Returns the packets that follow, by stream: until one stream has `count`, or covers `seconds`; nothing at the end.
std::optional<nb::dict> read_some(DemuxerObject& self, std::uint64_t generation, std::int64_t count, double seconds) {
    auto lists = self.use("streaming_demux", [&](Container& container) {
        if (container.generation() != generation) {
            throw MediaError(
                "the Demuxer was used for something else while streaming_demux was reading: use another one");
        }
        std::map<int, PacketList> found;
        std::map<int, double> covered;
        while (PacketPtr packet = container.read()) {
            const int index = packet->stream_index;
            auto place = found.find(index);
            if (place == found.end()) {
                place = found.emplace(index, PacketList{container.stream(index), {}, {}}).first;
            }
            PacketList& list = place->second;
            covered[index] += duration_of(*packet, *list.stream);
            list.packets.push_back(std::move(packet));
            if ((count > 0 && static_cast<std::int64_t>(list.packets.size()) >= count) ||
                (seconds > 0 && covered[index] >= seconds)) {
                break;
            }
        }
        return found;
    });
    if (lists.empty()) {
        return std::nullopt;
    }
    nb::dict result;
    for (auto& [index, list] : lists) {
        result[nb::int_(index)] = wrap_packets(self.name(), std::move(list));
    }
    return result;
}

}  // namespace

void bind_av_demuxer(nb::module_& module) {
    nb::class_<DemuxerObject>(module, "Demuxer")
        .def("__init__", &open_path, nb::arg("path"), nb::arg("name"), nb::arg("options"), nb::arg("packets_only"))
        .def("best_stream", &best_stream, nb::arg("audio"))
        .def("codec", &codec, nb::arg("index"))
        .def("num_streams",
             [](DemuxerObject& self) {
                 return self.use("Demuxer.num_streams", [](Container& container) { return container.num_streams(); });
             })
        .def("duration",
             [](DemuxerObject& self) {
                 return self.use("Demuxer.duration", [](Container& container) { return container.duration(); });
             })
        .def("demux", &demux, nb::arg("index"), nb::arg("start").none(), nb::arg("end").none(),
             nb::arg("counts_samples") = false)
        .def(
            "measure_sound",
            [](DemuxerObject& self, int index, const DecodeOptions& options) {
                const SoundExtent extent = self.use(
                    "AudioReader", [&](Container& container) { return measure_sound(container, index, options); });
                return std::tuple(extent.start, extent.samples, extent.rate);
            },
            nb::arg("index"), nb::arg("options"))
        .def("select", &select, nb::arg("indices"))
        .def("read_some", &read_some, nb::arg("generation"), nb::arg("count"), nb::arg("seconds"))
        .def("name", [](const DemuxerObject& self) { return self.name(); })
        .def("close", &DemuxerObject::close);
    module.def("open_bytes", [](nb::handle bytes, std::string name, const DemuxOptions& options, bool packets_only) {
        nb::object made = nb::inst_alloc(nb::type<DemuxerObject>());
        open_bytes(nb::inst_ptr<DemuxerObject>(made), bytes, std::move(name), options, packets_only);
        nb::inst_mark_ready(made);
        return made;
    });
    module.def(
        "open_file",
        [](nb::object file, std::string name, const DemuxOptions& options, bool packets_only, bool costly) {
            nb::object made = nb::inst_alloc(nb::type<DemuxerObject>());
            open_file(nb::inst_ptr<DemuxerObject>(made), std::move(file), std::move(name), options, packets_only,
                      costly);
            nb::inst_mark_ready(made);
            return made;
        },
        nb::arg("file"), nb::arg("name"), nb::arg("options"), nb::arg("packets_only"), nb::arg("costly"));
}

}  // namespace spdl
