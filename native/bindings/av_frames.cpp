#include "bindings/av_frames.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/frame_arrays.h"
#include "bindings/av_objects.h"
#include "bindings/buffer.h"
#include "bindings/frames.h"
#include "ffmpeg/channel_layout.h"
#include "ffmpeg/ffmpeg_backend.h"
#include "ffmpeg/ffmpeg_frame.h"

namespace nb = nanobind;

namespace spdl {
namespace {

using AudioFrames = FramesOf<Medium::kAudio>;
using VideoFrames = FramesOf<Medium::kVideo>;

std::size_t count_samples(const FrameList& list) {
    std::size_t samples = 0;
    for (const FramePtr& frame : list.frames) {
        samples += static_cast<std::size_t>(frame->nb_samples);
    }
    return samples;
}

// Returns a getter of the result of `look` on the first frame; of `otherwise` if there is none.
template <typename Frames, typename Look, typename Value>
auto of_first(Look look, Value otherwise) {
    return [look, otherwise](const Frames& self) {
        return self.read([&](const auto& held) -> Value {
            const AVFrame* const first =
                held.list.frames.empty() ? held.list.form.get() : held.list.frames.front().get();
            return first == nullptr ? otherwise : look(*first);
        });
    };
}

template <typename Frames, typename Look>
auto of_list(Look look) {
    return [look](const Frames& self) { return self.read([&](const auto& held) { return look(held.list); }); };
}

std::string sample_format(const AVFrame& frame) {
    const char* const name = av_get_sample_fmt_name(static_cast<AVSampleFormat>(frame.format));
    return name == nullptr ? "" : name;
}

std::string channel_layout(const AVFrame& frame) {
    return channel_layout_text(frame.ch_layout);
}

std::vector<double> timestamps(const FrameList& list) {
    std::vector<double> times;
    for (const FramePtr& frame : list.frames) {
        times.push_back(static_cast<double>(frame->pts) * av_q2d(list.time_base));
    }
    return times;
}

std::vector<std::int64_t> pts(const FrameList& list) {
    std::vector<std::int64_t> times;
    for (const FramePtr& frame : list.frames) {
        times.push_back(frame->pts);
    }
    return times;
}

std::size_t checked_index(std::int64_t index, std::size_t size) {
    const auto count = static_cast<std::int64_t>(size);
    if (index < -count || index >= count) {
        throw nb::index_error(
            ("there is no frame " + std::to_string(index) + ": there are " + std::to_string(count)).c_str());
    }
    return static_cast<std::size_t>(index < 0 ? index + count : index);
}

FramesObject frame_at(const VideoFrames& self, std::int64_t index) {
    const std::size_t count = self.read([](const auto& held) { return held.list.frames.size(); });
    const std::size_t at = checked_index(index, count);
    return self.read([&](const auto& held) {
        return FramesObject(Frames{
            held.name + ", frame " + std::to_string(at),
            {std::make_unique<FfmpegFrame>(reference(*held.list.frames[at]), held.list.time_base), &ffmpeg_backend}});
    });
}

VideoFrames frames_at(const VideoFrames& self, const std::vector<std::int64_t>& indices) {
    const std::size_t count = self.read([](const auto& held) { return held.list.frames.size(); });
    std::vector<std::size_t> places;
    places.reserve(indices.size());
    for (const std::int64_t index : indices) {
        places.push_back(checked_index(index, count));
    }
    return VideoFrames(self.read([&](const auto& held) {
        FrameList list{held.list.medium, {}, held.list.time_base};
        for (const std::size_t at : places) {
            list.frames.push_back(reference(*held.list.frames[at]));
        }
        return HeldFrames<Medium::kVideo>{held.name, std::move(list)};
    }));
}

// For ints that have more than 64 bits, which the functions above do not take.
[[noreturn]] void refuse_index(const VideoFrames& self, const std::string& index) {
    const std::size_t count = self.read([](const auto& held) { return held.list.frames.size(); });
    throw nb::index_error(("there is no frame " + index + ": there are " + std::to_string(count)).c_str());
}

void no_frame_at(const VideoFrames& self, const nb::int_& /*index*/) {
    refuse_index(self, "of so large a number");
}

void no_frames_at(const VideoFrames& self, const std::vector<nb::int_>& /*indices*/) {
    refuse_index(self, "of so large a number");
}

VideoFrames frames_in(const VideoFrames& self, const nb::slice& slice) {
    const std::size_t count = self.read([](const auto& held) { return held.list.frames.size(); });
    const auto [start, stop, step, length] = slice.compute(count);
    std::vector<std::int64_t> indices;
    Py_ssize_t at = start;
    for (std::size_t i = 0; i < length; ++i, at += step) {
        indices.push_back(at);
    }
    return frames_at(self, indices);
}

template <Medium medium>
CpuBuffer convert_one(FramesOf<medium>& object, const nb::object& storage) {
    HeldFrames<medium> frames = object.take();
    const std::optional<Memory> memory = take_memory(storage);
    return CpuBuffer(run("convert_frames", frames.name, [&] {
        const FrameList consumed = std::move(frames.list);
        return to_array(consumed, memory ? &*memory : nullptr);
    }));
}

template <Medium medium>
CpuBuffer convert_many(const std::vector<FramesOf<medium>*>& objects, const nb::object& storage) {
    std::vector<FrameList> lists;
    lists.reserve(objects.size());
    for (FramesOf<medium>* const object : objects) {
        lists.push_back(object->take().list);
    }
    const std::optional<Memory> memory = take_memory(storage);
    return CpuBuffer(run("convert_frames", "convert_frames", [&] {
        // The frames are freed here, without the GIL, even if they cannot be converted.
        const auto consumed = std::move(lists);
        return to_array(consumed, memory ? &*memory : nullptr);
    }));
}

template <Medium medium>
nb::class_<FramesOf<medium>> bind_frames(nb::module_& module, const char* name, const char* text) {
    using Object = FramesOf<medium>;
    nb::class_<Object> bound(module, name, text);
    bound
        .def_prop_ro("time_base", of_list<Object>([](const FrameList& list) {
                         return std::pair{list.time_base.num, list.time_base.den};
                     }),
                     "The unit of timestamps in seconds, as (numerator, denominator).")
        .def("get_timestamps", of_list<Object>(timestamps), "The times of the frames in seconds.")
        .def("get_pts", of_list<Object>(pts), "The times of the frames in units of the time base.")
        .def(
            "clone",
            [](const Object& self) {
                return Object(
                    self.read([](const auto& held) { return HeldFrames<medium>{held.name, held.list.clone()}; }));
            },
            "Frames that share their data with these, to be consumed on their own.")
        .def("__repr__", [name](const Object& self) {
            const auto found = self.find([](const auto& held) {
                return held.name + ", " + std::to_string(held.list.frames.size()) + " frames";
            });
            return std::string(name) + "(" + found.value_or("consumed") + ")";
        });
    module.def("convert_av", &convert_one<medium>, nb::arg("frames"), nb::arg("storage").none());
    // Under a name of its own, since VideoFrames would pass for a sequence.
    module.def("convert_av_batch", &convert_many<medium>, nb::arg("frames"), nb::arg("storage").none());
    return bound;
}

}  // namespace

void bind_av_frames(nb::module_& module) {
    bind_frames<Medium::kAudio>(module, "AudioFrames",
                                "Decoded sound, made by decode_packets. convert_frames consumes it.\n"
                                "\n"
                                "Example:\n"
                                "    >>> frames = decode_packets(demux_audio(sound))\n"
                                "    >>> len(frames), frames.sample_rate, frames.num_channels, frames.sample_fmt\n"
                                "    (8000, 8000, 1, 'fltp')")
        .def_prop_ro("num_frames", of_list<AudioFrames>(count_samples), "The number of samples of one channel.")
        .def_prop_ro("sample_rate", of_first<AudioFrames>([](const AVFrame& frame) { return frame.sample_rate; }, 0),
                     "In samples per second.")
        .def_prop_ro("num_channels",
                     of_first<AudioFrames>([](const AVFrame& frame) { return frame.ch_layout.nb_channels; }, 0),
                     "The number of channels.")
        .def_prop_ro("channel_layout", of_first<AudioFrames>(channel_layout, std::string()),
                     "The channels by FFmpeg's name, such as \"stereo\".")
        .def_prop_ro("sample_fmt", of_first<AudioFrames>(sample_format, std::string()),
                     "The sample format by FFmpeg's name.")
        .def("__len__", of_list<AudioFrames>(count_samples));
    bind_frames<Medium::kVideo>(
        module, "VideoFrames",
        "Decoded pictures of a video, made by decode_packets. convert_frames consumes it.\n"
        "\n"
        "An int gives one picture as ImageFrames; a slice or a list of ints gives VideoFrames.\n"
        "Both share the pixels.\n"
        "\n"
        "Example:\n"
        "    >>> frames = decode_packets(demux_video(clip))\n"
        "    >>> len(frames), frames.width, frames.height, frames.pix_fmt\n"
        "    (25, 64, 48, 'rgb24')\n"
        "    >>> len(frames[::5]), frames[-1].pts\n"
        "    (5, 0.96)")
        .def_prop_ro("num_frames", of_list<VideoFrames>([](const FrameList& list) { return list.frames.size(); }),
                     "The number of frames.")
        .def_prop_ro(
            "num_planes",
            of_first<VideoFrames>(
                [](const AVFrame& frame) { return av_pix_fmt_count_planes(static_cast<AVPixelFormat>(frame.format)); },
                0),
            "The number of memory planes that hold the pixels of a frame.")
        .def_prop_ro("width", of_first<VideoFrames>([](const AVFrame& frame) { return frame.width; }, 0), "In pixels.")
        .def_prop_ro("height", of_first<VideoFrames>([](const AVFrame& frame) { return frame.height; }, 0),
                     "In pixels.")
        .def_prop_ro(
            "pix_fmt",
            of_first<VideoFrames>([](const AVFrame& frame) { return std::string(ffmpeg_format_name(frame.format)); },
                                  std::string()),
            "The pixel format by FFmpeg's name.")
        .def("__len__", of_list<VideoFrames>([](const FrameList& list) { return list.frames.size(); }))
        .def("__getitem__", &frame_at, nb::arg("index"))
        .def("__getitem__", &frames_in, nb::arg("index"))
        .def("__getitem__", &frames_at, nb::arg("index"))
        .def("__getitem__", &no_frame_at, nb::arg("index"))
        .def("__getitem__", &no_frames_at, nb::arg("index"));
}

}  // namespace spdl
