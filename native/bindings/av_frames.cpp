#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/frame_arrays.h"
#include "av/frame_reader.h"
#include "bindings/av_objects.h"
#include "bindings/buffer.h"
#include "bindings/image_objects.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "bindings/python_bytes.h"
#include "core/buffer.h"
#include "core/non_copyable.h"
#include "core/parallel.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/frames.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

using AudioFrames = FramesOf<Medium::kAudio>;
using VideoFrames = FramesOf<Medium::kVideo>;

std::size_t sum_of_samples(const FrameList& list) {
    std::size_t samples = 0;
    for (const FramePtr& frame : list.frames) {
        samples += static_cast<std::size_t>(frame->nb_samples);
    }
    return samples;
}

// Returns a getter of the result of `look` on the first frame; of `otherwise` if none exists.
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
    module.def("convert_av", &convert_one<medium>, "frames"_a, "storage"_a.none());
    // Under a separate name, since VideoFrames would pass for a sequence.
    module.def("convert_av_batch", &convert_many<medium>, "frames"_a, "storage"_a.none());
    return bound;
}

constexpr const char* kName = "an array";

nb::object video(nb::handle bytes, const std::string& pixel_format, int width, int height, int count,
                 std::pair<int, int> frame_rate, std::int64_t time) {
    const auto held = share_bytes(bytes);
    FrameList list = run("create_reference_video_frame", kName, [&] {
        return show_pictures(held, held->get(), pixel_format, width, height, count,
                             {frame_rate.first, frame_rate.second}, time);
    });
    return wrap_frames<Medium::kVideo>(kName, std::move(list));
}

nb::object audio(nb::handle bytes, const std::string& sample_format, int channels, int samples, int sample_rate,
                 std::int64_t time) {
    const auto held = share_bytes(bytes);
    FrameList list = run("create_reference_audio_frame", kName, [&] {
        return show_sound(held, held->get(), sample_format, channels, samples, sample_rate, time);
    });
    return wrap_frames<Medium::kAudio>(kName, std::move(list));
}

// Returns an int64 array with these bytes.
CpuBuffer copy_int64(nb::handle bytes, std::vector<std::size_t> shape, const nb::object& storage) {
    const PythonBytes held(bytes);
    const std::optional<Memory> memory = take_memory(storage);
    return CpuBuffer(run("convert_array", "convert_array", [&] {
        Buffer buffer = allocate_in(memory ? &*memory : nullptr, std::move(shape), ElementType::kInt64);
        std::ranges::copy(held.get(), buffer.data);
        return buffer;
    }));
}

template <Medium medium>
nb::object decode(PacketsOf<medium>& object, const std::string& filters, const DecodeOptions& options,
                  std::int64_t num_frames, bool fills_gaps) {
    HeldPackets<medium> packets = object.take();
    FrameList frames = run("decode_packets", packets.name, [&] {
        const PacketList consumed = std::move(packets.list);
        return read_frames(consumed, options, filters, num_frames, fills_gaps);
    });
    return wrap_frames<medium>(std::move(packets.name), std::move(frames));
}

// The Python object over a decoder that takes packets piece by piece. Any number of threads may use it, one after the
// other.
template <Medium medium>
class DecoderObject : NonCopyable {
  public:
    DecoderObject(const Codec<medium>& codec, const std::string& filters, const DecodeOptions& options)
        : reader_(run("Decoder", "Decoder", [&] {
              check_filters(filters);
              return std::make_unique<FrameReader>(codec.stream, options, filters);
          })) {}
    ~DecoderObject() {
        const ReleasedGil released;
        reader_.reset();
        ready_.clear();
        queue_.clear();
    }

    void add(PacketsOf<medium>& object) {
        HeldPackets<medium> packets = object.take();
        run("streaming_decode_packets", packets.name, [&] {
            const std::scoped_lock lock(mutex_);
            name_ = packets.name;
            flushed_ = false;
            bool begins = !packets.list.window.whole();
            for (PacketPtr& packet : packets.list.packets) {
                queue_.push_back(
                    {std::move(packet), packets.list.stream, packets.list.window, std::exchange(begins, false)});
            }
        });
    }

    // Returns the next frames; nothing if more packets are needed for that.
    std::optional<nb::object> next() {
        return wrap(work("streaming_decode_packets", [&] {
            while (!queue_.empty() && !enough()) {
                decode_next();
            }
        }));
    }

    // Says that no more packets come, and returns the next of the frames that are left; nothing after the last.
    std::optional<nb::object> flush() {
        return wrap(work("Decoder.flush", [&] {
            while (!queue_.empty()) {
                decode_next();
            }
            if (!flushed_) {
                flushed_ = true;
                reader_->flush(ready_);
            }
            flushed_ = !ready_.empty();
        }));
    }

    void set_buffer_size(std::size_t size) {
        const ReleasedGil released;
        const std::scoped_lock lock(mutex_);
        buffer_size_ = size;
    }

  private:
    struct Queued {
        PacketPtr packet;
        std::shared_ptr<const Stream> stream;
        TimeWindow window;
        bool begins;  // A window of its own, whose packets may repeat those of the one before.
    };

    struct Finished {
        std::string name;
        FrameList list;
    };

    [[nodiscard]] bool enough() const { return buffer_size_ != 0 && ready_.size() >= buffer_size_; }

    // Runs `step`, and takes the frames that are ready then. Never waits for the lock with the GIL held: its owner may
    // need the GIL, to release a packet.
    template <typename Step>
    Finished work(const char* call, const Step& step) {
        const NativeCall native(call);
        const std::scoped_lock lock(mutex_);
        try {
            step();
        } catch (const MediaError& error) {
            throw MediaError(name_ + ": " + error.what());
        }
        std::vector<FramePtr> taken = take();
        return {name_, {medium, std::move(taken), reader_->time_base()}};
    }

    void decode_next() {
        check_interrupt();  // Before a packet is taken, so that none is lost.
        const Queued next = std::move(queue_.front());
        queue_.pop_front();
        const Stream& before = reader_->stream();
        const bool other_times =
            next.stream->counts_samples != before.counts_samples || next.stream->times != before.times;
        if (next.begins || other_times) {
            reader_->flush(ready_);
        }
        if (other_times) {
            reader_->set_stream(next.stream);
        }
        reader_->set_window(next.window);
        reader_->add(*next.packet, ready_);
    }

    std::vector<FramePtr> take() {
        const std::size_t count = buffer_size_ == 0 ? ready_.size() : std::min(buffer_size_, ready_.size());
        const auto end = ready_.begin() + static_cast<std::ptrdiff_t>(count);
        std::vector<FramePtr> taken(std::make_move_iterator(ready_.begin()), std::make_move_iterator(end));
        ready_.erase(ready_.begin(), end);
        return taken;
    }

    std::optional<nb::object> wrap(Finished finished) {
        if (finished.list.frames.empty()) {
            return std::nullopt;
        }
        return wrap_frames<medium>(std::move(finished.name), std::move(finished.list));
    }

    std::unique_ptr<FrameReader> reader_;
    std::string name_ = "Decoder";
    std::deque<Queued> queue_;
    std::vector<FramePtr> ready_;
    std::size_t buffer_size_ = 0;  // 0: as many as there are.
    bool flushed_ = false;
    OwnedMutex mutex_;
};

template <Medium medium>
void bind_decoder(nb::module_& module, const char* name) {
    using Object = DecoderObject<medium>;
    nb::class_<Object>(module, name)
        .def(nb::init<const Codec<medium>&, const std::string&, const DecodeOptions&>(), "codec"_a, "filters"_a,
             "options"_a)
        .def("add", &Object::add, "packets"_a)
        .def("next", &Object::next)
        .def("flush", &Object::flush)
        .def("set_buffer_size", &Object::set_buffer_size, "size"_a);
    module.def("decode_av", &decode<medium>, "packets"_a, "filters"_a, "options"_a, "num_frames"_a,
               "fills_gaps"_a = false);
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
        .def_prop_ro("num_frames", of_list<AudioFrames>(sum_of_samples), "The number of samples of one channel.")
        .def_prop_ro("sample_rate", of_first<AudioFrames>([](const AVFrame& frame) { return frame.sample_rate; }, 0),
                     "In samples per second.")
        .def_prop_ro("num_channels",
                     of_first<AudioFrames>([](const AVFrame& frame) { return frame.ch_layout.nb_channels; }, 0),
                     "The number of channels.")
        .def_prop_ro("channel_layout", of_first<AudioFrames>(channel_layout, std::string()),
                     "The channels by FFmpeg's name, such as \"stereo\".")
        .def_prop_ro("sample_fmt", of_first<AudioFrames>(sample_format, std::string()),
                     "The sample format by FFmpeg's name.")
        .def("__len__", of_list<AudioFrames>(sum_of_samples));
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
        .def("__getitem__", &frame_at, "index"_a)
        .def("__getitem__", &frames_in, "index"_a)
        .def("__getitem__", &frames_at, "index"_a)
        .def("__getitem__", &no_frame_at, "index"_a)
        .def("__getitem__", &no_frames_at, "index"_a);
}

void bind_av_reference_frames(nb::module_& module) {
    module.def("reference_video", &video, "pixels"_a, "pix_fmt"_a, "width"_a, "height"_a, "count"_a, "frame_rate"_a,
               "time"_a);
    module.def("reference_audio", &audio, "samples"_a, "sample_fmt"_a, "channels"_a, "count"_a, "sample_rate"_a,
               "time"_a);
    module.def("copy_int64", &copy_int64, "content"_a, "shape"_a, "storage"_a.none());
}

void bind_av_decoder(nb::module_& module) {
    bind_decoder<Medium::kAudio>(module, "AudioDecoder");
    bind_decoder<Medium::kVideo>(module, "VideoDecoder");
}

}  // namespace spdl
