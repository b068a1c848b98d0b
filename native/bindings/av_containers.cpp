#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

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
#include "av/muxer.h"
#include "av/sound_feed.h"
#include "bindings/av_objects.h"
#include "bindings/image_objects.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "bindings/python_bytes.h"
#include "core/files.h"
#include "core/non_copyable.h"

namespace nb = nanobind;
using namespace nb::literals;

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

// nanobind takes over what these return.
DemuxerObject* open_bytes(nb::handle bytes, std::string name, const DemuxOptions& options, bool packets_only) {
    const auto held = share_bytes(bytes);
    return new DemuxerObject(std::move(name), std::make_unique<MemorySource>(held->get(), held), options,
                             probing(packets_only));
}

DemuxerObject* open_file(nb::object file, std::string name, const DemuxOptions& options, bool packets_only,
                         bool costly) {
    return new DemuxerObject(std::move(name), std::make_unique<PythonSource>(std::move(file)), options,
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

// Returns what read_some() must get.
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

// The Python object over an encoder. Any number of threads may use it, one after the other.
template <Medium medium, typename Encoder>
class EncoderObject : NonCopyable {
  public:
    EncoderObject(std::string name, std::unique_ptr<Encoder> encoder)
        : name_(std::move(name)), encoder_(std::move(encoder)) {}
    ~EncoderObject() {
        const ReleasedGil released;
        encoder_.reset();
    }

    // Returns nothing if no packet is finished.
    std::optional<nb::object> encode(const FramesOf<medium>& object) {
        const FrameList frames = object.read([](const auto& held) { return held.list.clone(); });
        return produce("encode", [&](std::vector<PacketPtr>& packets) {
            encoder_->add(frames.frames, frames.time_base, packets);
        });
    }

    std::optional<nb::object> flush() {
        return produce("Encoder.flush", [&](std::vector<PacketPtr>& packets) { encoder_->flush(packets); });
    }

    [[nodiscard]] const Encoder& get() const { return *encoder_; }

  private:
    template <typename Work>
    std::optional<nb::object> produce(const char* call, const Work& work) {
        PacketList list{encoder_->encoder().stream(), {}, {}};
        run(call, name_, [&] {
            const std::scoped_lock lock(mutex_);
            work(list.packets);
        });
        if (list.packets.empty()) {
            return std::nullopt;
        }
        return wrap_packets<medium>(name_, std::move(list));
    }

    std::string name_;
    std::unique_ptr<Encoder> encoder_;
    OwnedMutex mutex_;
};

using AudioEncoderObject = EncoderObject<Medium::kAudio, AudioEncoder>;
using VideoEncoderObject = EncoderObject<Medium::kVideo, VideoEncoder>;

// The Python object over a file that is being written. Any number of threads may use it, one after the other.
class MuxerObject : NonCopyable {
  public:
    MuxerObject(std::string name, const std::string& format, const std::string& file_name)
        : name_(std::move(name)),
          muxer_(run("Muxer", name_, [&] { return std::make_unique<Muxer>(format, file_name); })) {}
    ~MuxerObject() { abandon(); }

    // Runs `work` on the muxer, without the GIL.
    template <typename Work>
    auto use(const char* call, const Work& work) {
        return run(call, name_, [&] {
            const std::scoped_lock lock(mutex_);
            if (!muxer_) {
                throw MediaError("the Muxer was closed");
            }
            return work(*muxer_);
        });
    }

    template <typename Object, typename Encoder, typename Options>
    Object* add_encoder(const Options& options) {
        auto encoder = use("Muxer.add_encode_stream", [&](Muxer& muxer) {
            auto made = std::make_unique<Encoder>(options, muxer.format());
            muxer.add_stream(*made->encoder().stream());
            return made;
        });
        return new Object(name_, std::move(encoder));  // nanobind takes it over.
    }

    [[nodiscard]] bool is_open() {
        const ReleasedGil released;
        const std::scoped_lock lock(mutex_);
        return muxer_ && muxer_->is_open();
    }

    // Gives up what was not written. The sink is not used any more.
    void abandon() {
        const ReleasedGil released;
        const std::scoped_lock lock(mutex_);
        muxer_.reset();
    }

  private:
    std::string name_;
    std::unique_ptr<Muxer> muxer_;
    OwnedMutex mutex_;
};

void open(MuxerObject& self, std::unique_ptr<ByteSink> sink, const OptionList& options) {
    self.use("Muxer.open", [&](Muxer& muxer) { muxer.open(std::move(sink), options); });
}

void open_descriptor(MuxerObject& self, int descriptor, const OptionList& options) {
    open(self, std::make_unique<FileSink>(descriptor), options);
}

void open_object(MuxerObject& self, nb::object file, const OptionList& options) {
    open(self, std::make_unique<PythonSink>(std::move(file)), options);
}

AudioEncoderObject* add_audio(MuxerObject& self, std::string encoder, OptionList options, int num_channels,
                              int sample_rate, std::string sample_format, std::int64_t bit_rate, int compression_level,
                              int qscale) {
    const AudioEncodeOptions given{{std::move(encoder), std::move(options), bit_rate, compression_level, qscale},
                                   num_channels,
                                   sample_rate,
                                   std::move(sample_format)};
    return self.add_encoder<AudioEncoderObject, AudioEncoder>(given);
}

VideoEncoderObject* add_video(MuxerObject& self, std::string encoder, OptionList options, int width, int height,
                              std::pair<int, int> frame_rate, std::string pixel_format, std::int64_t bit_rate,
                              int compression_level, int qscale, int gop_size, int max_b_frames, std::string colorspace,
                              std::string color_primaries, std::string color_trc) {
    const VideoEncodeOptions given{{std::move(encoder), std::move(options), bit_rate, compression_level, qscale},
                                   width,
                                   height,
                                   {frame_rate.first, frame_rate.second},
                                   std::move(pixel_format),
                                   gop_size,
                                   max_b_frames,
                                   std::move(colorspace),
                                   std::move(color_primaries),
                                   std::move(color_trc)};
    return self.add_encoder<VideoEncoderObject, VideoEncoder>(given);
}

template <Medium medium>
void add_remux(MuxerObject& self, const Codec<medium>& codec) {
    self.use("Muxer.add_remux_stream", [&](Muxer& muxer) { muxer.add_stream(*codec.stream); });
}

template <Medium medium>
void write(MuxerObject& self, int stream, const PacketsOf<medium>& object) {
    const PacketList packets = object.read([](const auto& held) { return held.list.clone(); });
    self.use("Muxer.write", [&](Muxer& muxer) { muxer.write(stream, packets); });
}

void close(MuxerObject& self) {
    self.use("Muxer.close", [](Muxer& muxer) { muxer.close(); });
    self.abandon();
}

}  // namespace

void bind_av_demuxer(nb::module_& module) {
    nb::class_<DemuxerObject>(module, "Demuxer")
        .def("__init__", &open_path, "path"_a, "name"_a, "options"_a, "packets_only"_a)
        .def("best_stream", &best_stream, "audio"_a)
        .def("codec", &codec, "index"_a)
        .def("num_streams",
             [](DemuxerObject& self) {
                 return self.use("Demuxer.num_streams", [](Container& container) { return container.num_streams(); });
             })
        .def("duration",
             [](DemuxerObject& self) {
                 return self.use("Demuxer.duration", [](Container& container) { return container.duration(); });
             })
        .def("demux", &demux, "index"_a, "start"_a.none(), "end"_a.none(), "counts_samples"_a = false)
        .def(
            "measure_sound",
            [](DemuxerObject& self, int index, const DecodeOptions& options) {
                const SoundExtent extent = self.use(
                    "AudioReader", [&](Container& container) { return measure_sound(container, index, options); });
                return std::tuple(extent.start, extent.samples, extent.rate);
            },
            "index"_a, "options"_a)
        .def("select", &select, "indices"_a)
        .def("read_some", &read_some, "generation"_a, "count"_a, "seconds"_a)
        .def("name", [](const DemuxerObject& self) { return self.name(); })
        .def("close", &DemuxerObject::close);
    module.def("open_bytes", &open_bytes);
    module.def("open_file", &open_file, "file"_a, "name"_a, "options"_a, "packets_only"_a, "costly"_a);
}

void bind_av_muxer(nb::module_& module) {
    nb::class_<AudioEncoderObject>(module, "AudioEncoder")
        .def("encode", &AudioEncoderObject::encode, "frames"_a)
        .def("flush", &AudioEncoderObject::flush)
        .def("frame_size", [](const AudioEncoderObject& self) { return self.get().frame_size(); });
    nb::class_<VideoEncoderObject>(module, "VideoEncoder")
        .def("encode", &VideoEncoderObject::encode, "frames"_a)
        .def("flush", &VideoEncoderObject::flush);
    nb::class_<MuxerObject>(module, "Muxer")
        .def(nb::init<std::string, const std::string&, const std::string&>(), "name"_a, "container"_a, "file_name"_a)
        .def("add_audio_encoder", &add_audio, "encoder"_a, "options"_a, "num_channels"_a, "sample_rate"_a,
             "sample_fmt"_a, "bit_rate"_a, "compression_level"_a, "qscale"_a)
        .def("add_video_encoder", &add_video, "encoder"_a, "options"_a, "width"_a, "height"_a, "frame_rate"_a,
             "pix_fmt"_a, "bit_rate"_a, "compression_level"_a, "qscale"_a, "gop_size"_a, "max_b_frames"_a,
             "colorspace"_a, "color_primaries"_a, "color_trc"_a)
        .def("add_remux", &add_remux<Medium::kAudio>, "codec"_a)
        .def("add_remux", &add_remux<Medium::kVideo>, "codec"_a)
        .def("open_descriptor", &open_descriptor, "descriptor"_a, "options"_a)
        .def("open_file", &open_object, "file"_a, "options"_a)
        .def("write", &write<Medium::kAudio>, "stream_index"_a, "packets"_a)
        .def("write", &write<Medium::kVideo>, "stream_index"_a, "packets"_a)
        .def("flush", [](MuxerObject& self) { self.use("Muxer.flush", [](Muxer& muxer) { muxer.flush(); }); })
        .def("close", &close)
        .def("check_new", [](MuxerObject& self) { self.use("Muxer.open", [](Muxer& muxer) { muxer.check_new(); }); })
        .def("is_open", &MuxerObject::is_open)
        .def("abandon", &MuxerObject::abandon);
}

}  // namespace spdl
