#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/packet_archive.h"
#include "av/packets.h"
#include "bindings/av_objects.h"
#include "bindings/image_objects.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "bindings/numpy_array.h"
#include "bindings/python_bytes.h"
#include "core/buffer.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/frames.h"
#include "image/load/one_image.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

std::pair<int, int> fraction(AVRational value) {
    return {value.num, value.den};
}

std::string sample_format(const Stream& stream) {
    const char* const name = av_get_sample_fmt_name(static_cast<AVSampleFormat>(stream.parameters->format));
    return name == nullptr ? "" : name;
}

std::string pixel_format(const Stream& stream) {
    const char* const name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(stream.parameters->format));
    return name == nullptr ? "" : name;
}

// Returns the name of the channel layout; for streams that do not say, the usual one, as in decoders.
std::string channel_layout(const Stream& stream) {
    AVChannelLayout usual{};
    const AVChannelLayout* layout = &stream.parameters->ch_layout;
    if (layout->order == AV_CHANNEL_ORDER_UNSPEC) {
        av_channel_layout_default(&usual, layout->nb_channels);
        layout = &usual;
    }
    return channel_layout_text(*layout);
}

double seconds(const Moment& moment) {
    return static_cast<double>(moment.numerator) / moment.denominator;
}

// Returns (start, end) in seconds; nothing for the whole stream.
std::optional<std::pair<double, double>> timestamp(const TimeWindow& window) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (window.whole()) {
        return std::nullopt;
    }
    return std::pair{window.start ? seconds(*window.start) : -kInfinity, window.end ? seconds(*window.end) : kInfinity};
}

// Returns a getter of the result of `look` on what is known of the stream.
template <typename Object, typename Look>
auto of_stream(Look look) {
    return [look](const Object& self) { return self.read([&](const auto& held) { return look(*held.list.stream); }); };
}

template <Medium medium, typename Look>
auto of_codec(Look look) {
    return [look](const Codec<medium>& self) { return look(*self.stream); };
}

std::string codec_name(const Stream& stream) {
    return avcodec_get_name(stream.parameters->codec_id);
}
int sample_rate(const Stream& stream) {
    return stream.parameters->sample_rate;
}
int num_channels(const Stream& stream) {
    return stream.parameters->ch_layout.nb_channels;
}
int width(const Stream& stream) {
    return stream.parameters->width;
}
int height(const Stream& stream) {
    return stream.parameters->height;
}

void bind_codecs(nb::module_& module) {
    constexpr Medium kAudio = Medium::kAudio;
    constexpr Medium kVideo = Medium::kVideo;
    nb::class_<Codec<kAudio>>(module, "AudioCodec",
                              "The properties that an audio stream states about itself.\n"
                              "\n"
                              "Example:\n"
                              "    >>> codec = demux_audio(sound).codec\n"
                              "    >>> codec.name, codec.sample_rate, codec.num_channels, codec.sample_fmt\n"
                              "    ('pcm_s16le', 8000, 1, 's16')")
        .def_prop_ro("name", of_codec<kAudio>(codec_name), "The codec by FFmpeg's name.")
        .def_prop_ro("sample_rate", of_codec<kAudio>(sample_rate), "In samples per second.")
        .def_prop_ro("num_channels", of_codec<kAudio>(num_channels), "The number of channels.")
        .def_prop_ro("sample_fmt", of_codec<kAudio>(sample_format),
                     "The sample format by FFmpeg's name; \"\" if only the decoder knows.")
        .def_prop_ro("channel_layout", of_codec<kAudio>(channel_layout), "The channels by FFmpeg's name.")
        .def_prop_ro("time_base", of_codec<kAudio>([](const Stream& stream) { return fraction(stream.time_base); }),
                     "The unit of timestamps in seconds, as (numerator, denominator).")
        .def("__repr__", of_codec<kAudio>([](const Stream& stream) {
                 return "AudioCodec(" + codec_name(stream) + ", " + std::to_string(sample_rate(stream)) + " Hz, " +
                        std::to_string(num_channels(stream)) + " channels, " + sample_format(stream) + ")";
             }));
    nb::class_<Codec<kVideo>>(module, "VideoCodec",
                              "The properties that a video stream states about itself.\n"
                              "\n"
                              "Example:\n"
                              "    >>> codec = demux_video(clip).codec\n"
                              "    >>> codec.name, codec.width, codec.height, codec.frame_rate\n"
                              "    ('mpeg4', 64, 48, (25, 1))")
        .def_prop_ro("name", of_codec<kVideo>(codec_name), "The codec by FFmpeg's name.")
        .def_prop_ro("width", of_codec<kVideo>(width), "In pixels.")
        .def_prop_ro("height", of_codec<kVideo>(height), "In pixels.")
        .def_prop_ro("pix_fmt", of_codec<kVideo>(pixel_format),
                     "The stored pixel format by FFmpeg's name; \"\" if only the decoder knows.")
        .def_prop_ro("frame_rate", of_codec<kVideo>([](const Stream& stream) { return fraction(stream.frame_rate); }),
                     "Frames per second as (numerator, denominator); (0, 1) if unknown.")
        .def_prop_ro("time_base", of_codec<kVideo>([](const Stream& stream) { return fraction(stream.time_base); }),
                     "The unit of timestamps in seconds, as (numerator, denominator).")
        .def_prop_ro("sample_aspect_ratio", of_codec<kVideo>([](const Stream& stream) {
                         return fraction(stream.parameters->sample_aspect_ratio);
                     }),
                     "The width of a pixel divided by its height, as (numerator, denominator); (0, 1) if unknown.")
        .def_prop_ro("rotation", of_codec<kVideo>([](const Stream& stream) { return stream.rotation; }),
                     "The degrees by which a viewer turns the picture clockwise, which is 0, 90, 180 or 270.")
        .def("__repr__", of_codec<kVideo>([](const Stream& stream) {
                 return "VideoCodec(" + codec_name(stream) + ", " + std::to_string(width(stream)) + "x" +
                        std::to_string(height(stream)) + ", " + pixel_format(stream) + ")";
             }));
}

template <Medium medium>
nb::class_<PacketsOf<medium>> bind_packets(nb::module_& module, const char* name, const char* text) {
    using Packets = PacketsOf<medium>;
    nb::class_<Packets> bound(module, name, text);
    bound
        .def_prop_ro(
            "codec",
            [](const Packets& self) {
                return Codec<medium>{self.read([](const auto& held) { return held.list.stream; })};
            },
            "The properties that the stream states about itself.")
        .def_prop_ro(
            "timestamp",
            [](const Packets& self) { return self.read([](const auto& held) { return timestamp(held.list.window); }); },
            "The window as (start, end) in seconds; None if the packets are those of the whole stream.")
        .def(
            "clone",
            [](const Packets& self) {
                return Packets(
                    self.read([](const auto& held) { return HeldPackets<medium>{held.name, held.list.clone()}; }));
            },
            "Packets that share their data with these, to be consumed on their own.")
        .def("__len__",
             [](const Packets& self) {
                 return self.read([](const auto& held) {
                     return medium == Medium::kAudio ? held.list.packets.size() : held.list.times(false).size();
                 });
             })
        .def("__repr__", [name](const Packets& self) {
            const auto found = self.find([](const auto& held) {
                return held.name + ", " + held.list.stream->describe() + ", " +
                       std::to_string(held.list.packets.size()) + " packets";
            });
            return std::string(name) + "(" + found.value_or("consumed") + ")";
        });
    bind_pickling(bound);
    return bound;
}

constexpr const char* kName = "deserialize";

// The bytes of a pickle, and what keeps them in place. libav may drop the last packet in them without the GIL.
struct HeldArchive {
    std::shared_ptr<const void> owner;
    Bytes bytes;
};

HeldArchive hold(nb::handle object, bool copy) {
    const std::shared_ptr<const PythonBytes> held = share_bytes(object);
    if (!copy) {
        return {held, held->get()};
    }
    const ReleasedGil released;
    auto copied = std::make_shared<AlignedBuffer>(held->get().size());
    std::ranges::copy(held->get(), copied->data());
    return {copied, {copied->data(), copied->size()}};
}

// Returns what `make` makes, without the GIL, as an array.
template <typename Archive>
nb::object serialized(const std::string& name, const Archive& make) {
    return show_bytes(run("pickle", name, [&] {
        const std::vector<std::uint8_t> bytes = make();
        AlignedBuffer memory(bytes.size());
        std::ranges::copy(bytes, memory.data());
        return memory;
    }));
}

template <Medium medium>
nb::object serialize_list(const PacketsOf<medium>& object) {
    const auto held = object.read([](const auto& packets) { return std::pair(packets.name, packets.list.clone()); });
    return serialized(held.first, [&] { return archive(held.first, held.second); });
}

template <Medium medium>
PacketsOf<medium>* deserialize_list(nb::handle bytes, bool copy) {
    ArchivedPackets restored =
        run(kName, kName, [&, held = hold(bytes, copy)] { return restore_packets(held.owner, held.bytes, medium); });
    return new PacketsOf<medium>(HeldPackets<medium>{std::move(restored.name), std::move(restored.list)});
}

// The Python object over bit-stream filters of one stream. Any number of threads may use it, one after the other.
template <Medium medium>
class BsfObject {
  public:
    BsfObject(const Codec<medium>& codec, const std::string& description)
        : filter_(run("BSF", "BSF", [&] { return std::make_unique<BitStreamFilter>(codec.stream, description); })) {}

    nb::object filter(PacketsOf<medium>& object, bool flush) {
        HeldPackets<medium> packets = object.take();
        PacketList list = run("BSF.filter", packets.name, [&] {
            const std::scoped_lock lock(mutex_);
            PacketList finished{filter_->output(), {}, packets.list.window};
            PacketList consumed = std::move(packets.list);
            for (PacketPtr& packet : consumed.packets) {
                filter_->add(std::move(packet), finished.packets);
            }
            if (flush) {
                filter_->flush(finished.packets);
            }
            return finished;
        });
        return wrap_packets<medium>(std::move(packets.name), std::move(list));
    }

    nb::object flush() {
        PacketList list = run("BSF.flush", "BSF", [&] {
            const std::scoped_lock lock(mutex_);
            PacketList rest{filter_->output(), {}, {}};
            filter_->flush(rest.packets);
            return rest;
        });
        return wrap_packets<medium>("BSF", std::move(list));
    }

  private:
    std::unique_ptr<BitStreamFilter> filter_;
    std::mutex mutex_;
};

template <Medium medium>
void bind_filter(nb::module_& module, const char* name) {
    using Object = BsfObject<medium>;
    nb::class_<Object>(module, name)
        .def(nb::init<const Codec<medium>&, const std::string&>(), "codec"_a, "description"_a)
        .def("filter", &Object::filter, "packets"_a, "flush"_a)
        .def("flush", &Object::flush);
}

}  // namespace

void bind_av_packets(nb::module_& module) {
    using AudioPackets = PacketsOf<Medium::kAudio>;
    using VideoPackets = PacketsOf<Medium::kVideo>;
    bind_codecs(module);
    bind_packets<Medium::kAudio>(
        module, "AudioPackets",
        "Encoded sound of one stream, found by demux_audio. decode_packets consumes it.\n"
        "\n"
        "Packets are as the file stores them: they may begin before the window, since decoders build on\n"
        "what came before. decode_packets cuts to the sample.\n"
        "\n"
        "Example:\n"
        "    >>> packets = demux_audio(sound, timestamp=(0.25, 0.5))\n"
        "    >>> packets.sample_rate, packets.num_channels, packets.timestamp\n"
        "    (8000, 1, (0.25, 0.5))")
        .def_prop_ro("sample_rate", of_stream<AudioPackets>(sample_rate), "In samples per second.")
        .def_prop_ro("num_channels", of_stream<AudioPackets>(num_channels), "The number of channels.");
    bind_packets<Medium::kVideo>(
        module, "VideoPackets",
        "Encoded pictures of one stream, found by demux_video. decode_packets consumes it.\n"
        "\n"
        "The packets may begin before the window, since decoding begins at a key frame. The length is the\n"
        "number of packets within the window.\n"
        "\n"
        "Example:\n"
        "    >>> packets = demux_video(clip, timestamp=(0.2, 0.4))\n"
        "    >>> len(packets), packets.width, packets.height\n"
        "    (5, 64, 48)\n"
        "    >>> packets.get_timestamps()\n"
        "    [0.2, 0.24, 0.28, 0.32, 0.36]")
        .def_prop_ro("width", of_stream<VideoPackets>(width), "In pixels.")
        .def_prop_ro("height", of_stream<VideoPackets>(height), "In pixels.")
        .def_prop_ro("pix_fmt", of_stream<VideoPackets>(pixel_format),
                     "The stored pixel format by FFmpeg's name; \"\" if only the decoder knows.")
        .def_prop_ro("frame_rate",
                     of_stream<VideoPackets>([](const Stream& stream) { return fraction(stream.frame_rate); }),
                     "Frames per second as (numerator, denominator); (0, 1) if unknown.")
        .def(
            "get_timestamps",
            [](const VideoPackets& self, bool raw) {
                return self.read([&](const auto& held) {
                    std::vector<double> times;
                    for (const std::int64_t time : held.list.times(raw)) {
                        times.push_back(time == AV_NOPTS_VALUE ? std::nan("") : held.list.stream->seconds(time));
                    }
                    return times;
                });
            },
            nb::kw_only(), "raw"_a = false,
            "The times when the pictures are shown, in seconds: sorted, and those within the window.\n"
            "With raw=True, those of all packets, in the order in which they are decoded.");
}

nb::object serialize(const PacketsOf<Medium::kAudio>& object) {
    return serialize_list(object);
}

nb::object serialize(const PacketsOf<Medium::kVideo>& object) {
    return serialize_list(object);
}

nb::object serialize(const PacketsObject& object) {
    const Packets held = object.read([](const Packets& packets) { return packets; });
    return serialized(held.name, [&] {
        const auto* const packet = dynamic_cast<const FfmpegPacket*>(held.image.get());
        return packet == nullptr ? archive_file(held.name, held.image->image().bytes)
                                 : archive(held.name, packet->get());
    });
}

void deserialize(nb::handle bytes, bool copy, PacketsOf<Medium::kAudio>*& made) {
    made = deserialize_list<Medium::kAudio>(bytes, copy);
}

void deserialize(nb::handle bytes, bool copy, PacketsOf<Medium::kVideo>*& made) {
    made = deserialize_list<Medium::kVideo>(bytes, copy);
}

void deserialize(nb::handle bytes, bool copy, PacketsObject*& made) {
    const HeldArchive held = hold(bytes, copy);
    std::string name;
    std::shared_ptr<const Packet> image = run(kName, kName, [&]() -> std::shared_ptr<const Packet> {
        ArchivedImage restored = restore_image(held.owner, held.bytes);
        name = std::move(restored.name);
        if (restored.packet.packet == nullptr) {
            // As it was found before.
            return demux_image(held.owner, {restored.file, {}, nullptr}, {});
        }
        return std::make_shared<FfmpegPacket>(std::move(restored.packet));
    });
    made = new PacketsObject(wrap_packets(std::move(name), std::move(image), nullptr));
}

void bind_av_bsf(nb::module_& module) {
    bind_filter<Medium::kAudio>(module, "AudioBsf");
    bind_filter<Medium::kVideo>(module, "VideoBsf");
}

}  // namespace spdl
