#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "av/batches.h"
#include "av/frame_arrays.h"
#include "av/frame_reader.h"
#include "av/scaling.h"
#include "av/video_index.h"
#include "bindings/av_objects.h"
#include "bindings/buffer.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "bindings/python_bytes.h"
#include "core/files.h"
#include "core/non_copyable.h"
#include "ffmpeg/frames.h"
#include "gpu/video_reader.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

using Fraction = std::pair<std::int64_t, int>;
using Window = std::pair<std::optional<Fraction>, std::optional<Fraction>>;

// Strings are paths, everything else is encoded bytes. Both outlive the call.
struct MediaInputs {
    MediaInputs(const nb::tuple& objects, const std::vector<Window>& windows) {
        for (std::size_t i = 0; i < objects.size(); ++i) {
            MediaInput& input = inputs.emplace_back();
            if (const nb::handle object = objects[i]; nb::isinstance<nb::str>(object)) {
                input.path = paths.emplace_back(nb::borrow<nb::str>(object)).get();
            } else {
                input.bytes = bytes.emplace_back(object).get();
            }
            if (!windows.empty()) {
                input.window = {moment(windows[i].first), moment(windows[i].second)};
            }
        }
    }

    std::vector<MediaInput> inputs;
    std::deque<PythonPath> paths;
    std::deque<PythonBytes> bytes;
};

// Returns nothing for an array without memory.
std::optional<CpuBuffer> wrap(Buffer array) {
    std::optional<CpuBuffer> buffer;
    if (array.data != nullptr) {
        buffer.emplace(std::move(array));
    }
    return buffer;
}

std::tuple<std::optional<CpuBuffer>, std::vector<std::int64_t>, Failures> load_sound_arrays(
    const nb::tuple& objects, const std::vector<Window>& windows, const std::string& filters,
    std::optional<std::size_t> num_frames, std::optional<std::size_t> num_channels, const DemuxOptions& demux,
    const DecodeOptions& decode, int num_threads, bool keep_failed, const nb::object& storage) {
    const MediaInputs inputs(objects, windows);
    const SoundBatchOptions options{demux, decode, filters, num_frames, num_channels, num_threads, keep_failed};
    const std::optional<Memory> memory = take_memory(storage);
    SoundBatch batch;
    {
        const NativeCall call("load_audio_batch");
        batch = load_sounds(inputs.inputs, options, memory ? &*memory : nullptr);
    }
    return {wrap(std::move(batch.sounds)), std::move(batch.lengths), take_failures(std::move(batch.failures))};
}

std::tuple<std::optional<CpuBuffer>, std::vector<std::size_t>, Failures> load_clips(
    const nb::tuple& sources, const std::vector<Window>& windows, const LoadOptions& options, std::size_t num_frames,
    bool spread, double rate, std::size_t step, const DemuxOptions& demux, const DecodeOptions& decode, int num_threads,
    bool keep_failed, const nb::object& storage) {
    const MediaInputs inputs(sources, windows);
    const std::optional<Memory> memory = take_memory(storage);
    VideoBatch batch;
    {
        const NativeCall call("load_video_batch");
        const VideoBatchOptions batch_options{
            demux, decode, {num_frames, spread, rate, step}, num_threads, keep_failed};
        batch = load_video_batch(inputs.inputs, options, batch_options, memory ? &*memory : nullptr);
    }
    return {wrap(std::move(batch.clips)), std::move(batch.lengths), take_failures(std::move(batch.failures))};
}

// The frames to pick, each once and in order, and for each place of the result the frame that belongs there.
struct Selection {
    explicit Selection(const std::vector<std::size_t>& wanted) : frames(wanted), places(wanted.size()) {
        std::ranges::sort(frames);
        frames.erase(std::ranges::unique(frames).begin(), frames.end());
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            places[i] = static_cast<std::size_t>(std::ranges::lower_bound(frames, wanted[i]) - frames.begin());
        }
        rows.resize(frames.size());
        for (std::size_t row = wanted.size(); row-- > 0;) {
            rows[places[row]] = row;
        }
    }

    // Calls `copy` with the row that a frame is written to, and each other row for that frame.
    template <typename Copy>
    void for_repeated(const Copy& copy) const {
        for (std::size_t row = 0; row < places.size(); ++row) {
            if (const std::size_t first = rows[places[row]]; first != row) {
                copy(first, row);
            }
        }
    }

    std::vector<std::size_t> frames;
    std::vector<std::size_t> places;
    std::vector<std::size_t> rows;  // The first place of each frame.
};

// The times, the places, the keys, what is hidden, whether it is timed, whether files are joined, and the damage.
using IndexState =
    std::tuple<std::vector<std::int64_t>, std::vector<std::int64_t>, nb::bytes, nb::bytes, bool, bool, std::string>;

nb::bytes as_bytes(const std::vector<std::uint8_t>& flags) {
    return nb::bytes(flags.data(), flags.size());
}

std::vector<std::uint8_t> flags_of(const nb::bytes& bytes) {
    const auto* const data = static_cast<const std::uint8_t*>(bytes.data());
    return {data, data + bytes.size()};
}

// The Python object over a video that is open for reading frames in any order. Any number of threads may use it, one
// after the other.
class VideoReaderObject : NonCopyable {
  public:
    VideoReaderObject(DemuxerObject& demuxer, int stream, const DecodeOptions& options,
                      const std::optional<IndexState>& index)
        : name_(demuxer.name()), container_(demuxer.release()) {
        std::vector<std::uint8_t> keys;
        std::vector<std::uint8_t> hidden;
        if (index) {
            keys = flags_of(std::get<2>(*index));
            hidden = flags_of(std::get<3>(*index));
            damage_ = std::get<6>(*index);
        }
        run("VideoReader", name_, [&] {
            stream_ = container_->stream(stream);
            if (index) {
                index_.emplace(std::get<0>(*index), std::get<1>(*index), std::move(keys), std::move(hidden),
                               std::get<4>(*index), std::get<5>(*index));
            } else {
                auto [found, damage] = scan_video(*container_, stream, options);
                index_.emplace(std::move(found));
                damage_ = std::move(damage);
            }
            feed_ = std::make_unique<ContainerFeed>(*container_, stream, *index_);
            picker_ = std::make_unique<FramePicker>(stream_, options, *feed_, *index_);
        });
    }
    ~VideoReaderObject() {
        const ReleasedGil released;
        gpu_.reset();
        picker_.reset();
        feed_.reset();
        container_.reset();
    }

    CpuBuffer read(const std::vector<std::size_t>& wanted, const LoadOptions& options, const nb::object& storage) {
        const std::optional<Memory> memory = take_memory(storage);
        return CpuBuffer(run("VideoReader.read_frames", name_, [&] {
            const Selection selection(wanted);
            PictureArray array(options, stream_->rotation, wanted.size(), memory ? &*memory : nullptr);
            const std::scoped_lock lock(mutex_);
            std::size_t at = 0;
            picker_->pick(selection.frames, [&](std::size_t /*frame*/, const FramePtr& decoded) {
                array.write(*decoded, selection.rows[at++]);
            });
            selection.for_repeated([&](std::size_t from, std::size_t to) { array.copy(from, to); });
            return array.take();
        }));
    }

    // Has a GPU decode, on this stream of it. Throws if NVDEC does not decode the video.
    void use_gpu(cuda::Device device, std::uintptr_t stream) {
        GpuVideoReader::Target target;
        target.device = device;
        target.stream = stream_of(stream);
        target.allocate = [device, stream](std::size_t bytes) {
            return cuda::allocate_device(device, bytes, stream_of(stream));
        };
        target.remedy = "decode it on the CPU: device=\"cpu\"";
        run("VideoReader", name_, [&] { gpu_ = std::make_unique<GpuFramePicker>(stream_, *feed_, *index_, target); });
    }

    // Does what read() does, after use_gpu().
    CudaBuffer read_on_gpu(const std::vector<std::size_t>& wanted, const LoadOptions& options, cuda::Device device,
                           std::uintptr_t stream, const nb::object& allocator, std::string kernel_folder) {
        CudaBuffer result{nullptr, 0, {}, options.format.type(), device, stream, {}};
        const GpuPictureArray::Target target{device, stream_of(stream), std::move(kernel_folder),
                                             make_allocator(allocator, device, stream)};
        run("VideoReader.read_frames", name_, [&] {
            const Selection selection(wanted);
            GpuPictureArray array(options, stream_->rotation, wanted.size(), target);
            const std::scoped_lock lock(mutex_);
            picker_->forget();
            std::size_t at = 0;
            gpu_->pick(selection.frames, [&](std::size_t /*frame*/, GpuFrame decoded) {
                array.add(std::move(decoded), selection.rows[at++]);
            });
            selection.for_repeated([&](std::size_t from, std::size_t to) { array.copy(from, to); });
            cuda::DeviceMemory memory = array.take();
            result.owner = std::move(memory.owner);
            result.data = memory.pointer;
            result.shape = array.shape();
        });
        return result;
    }

    nb::object frames(const std::vector<std::size_t>& wanted) {
        FrameList list = run("VideoReader.decode", name_, [&] {
            const Selection selection(wanted);
            const std::scoped_lock lock(mutex_);
            std::vector<FramePtr> picked;
            picker_->pick(selection.frames,
                          [&](std::size_t /*frame*/, FramePtr decoded) { picked.push_back(std::move(decoded)); });
            FrameList found{Medium::kVideo, {}, stream_->time_base};
            for (const std::size_t place : selection.places) {
                found.frames.push_back(reference(*picked[place]));
            }
            return found;
        });
        return wrap_frames<Medium::kVideo>(name_, std::move(list));
    }

    [[nodiscard]] IndexState index() const {
        return {
            index_->times(),  index_->places(), as_bytes(index_->keys()), as_bytes(index_->hidden()), index_->timed(),
            index_->joined(), damage_};
    }

    [[nodiscard]] std::vector<double> times() const {
        std::vector<double> seconds;
        for (std::size_t frame = 0; frame < index_->num_frames(); ++frame) {
            seconds.push_back(index_->seconds(frame, *stream_));
        }
        return seconds;
    }

    // Returns the frames that decoding can begin with.
    [[nodiscard]] std::vector<std::size_t> key_frames() const {
        std::vector<std::size_t> found;
        for (std::size_t frame = 0; frame < index_->num_frames(); ++frame) {
            if (index_->keys()[index_->position(frame)] != 0) {
                found.push_back(frame);
            }
        }
        return found;
    }

    [[nodiscard]] std::size_t num_frames() const { return index_->num_frames(); }

    [[nodiscard]] double rate() const { return index_->rate(*stream_); }
    [[nodiscard]] double usual_step() const { return index_->usual_step(*stream_); }
    [[nodiscard]] int rotation() const { return stream_->rotation; }

    // Returns what is known of the stream. Decodes a frame if the header does not tell the pixel format.
    Codec<Medium::kVideo> codec() {
        return {run("VideoReader.codec", name_, [&] {
            const std::scoped_lock lock(mutex_);
            if (!described_) {
                described_ = stream_;
                if (stream_->parameters->format == AV_PIX_FMT_NONE && index_->num_frames() > 0) {
                    if (gpu_) {
                        gpu_->forget();
                    }
                    picker_->pick({0}, [](std::size_t /*frame*/, const FramePtr& /*decoded*/) {});
                    described_ = std::make_shared<const Stream>(with(*stream_, picker_->decoder().parameters()));
                }
            }
            return described_;
        })};
    }
    [[nodiscard]] const std::string& damage() const { return damage_; }

  private:
    std::string name_;
    std::unique_ptr<Container> container_;
    std::shared_ptr<const Stream> stream_;
    std::shared_ptr<const Stream> described_;  // Once somebody has asked.
    std::optional<VideoIndex> index_;
    std::string damage_;
    std::unique_ptr<ContainerFeed> feed_;
    std::unique_ptr<FramePicker> picker_;
    std::unique_ptr<GpuFramePicker> gpu_;  // Uses the same feed.
    OwnedMutex mutex_;
};

// Returns chosen frames among those within the window of the packets, in ascending order.
nb::object sample(PacketsOf<Medium::kVideo>& object, const std::vector<std::size_t>& frames, const std::string& filters,
                  const DecodeOptions& options) {
    HeldPackets<Medium::kVideo> packets = object.take();
    FrameList list = run("sample_decode_video", packets.name, [&] {
        const PacketList consumed = std::move(packets.list);
        return sample_frames(consumed, frames, options, filters);
    });
    return wrap_frames<Medium::kVideo>(std::move(packets.name), std::move(list));
}

}  // namespace

void bind_av_batch(nb::module_& module) {
    module.def("load_sounds", &load_sound_arrays, nb::kw_only(), "sources"_a, "windows"_a, "filters"_a,
               "num_frames"_a.none(), "num_channels"_a.none(), "demux"_a, "decode"_a, "num_threads"_a, "keep_failed"_a,
               "storage"_a.none());
}

void bind_av_video_batch(nb::module_& module) {
    module.def("load_video_batch", &load_clips, nb::kw_only(), "sources"_a, "windows"_a, "request"_a, "num_frames"_a,
               "spread"_a, "rate"_a, "step"_a, "demux"_a, "decode"_a, "num_threads"_a, "keep_failed"_a,
               "storage"_a.none());
}

void bind_av_video_reader(nb::module_& module) {
    nb::class_<VideoReaderObject>(module, "VideoReader")
        .def(nb::init<DemuxerObject&, int, const DecodeOptions&, const std::optional<IndexState>&>(), "demuxer"_a,
             "stream"_a, "options"_a, "index"_a.none())
        .def("read", &VideoReaderObject::read, "frames"_a, "request"_a, "storage"_a.none())
        .def("use_gpu", &VideoReaderObject::use_gpu, nb::kw_only(), "device"_a, "stream"_a)
        .def("read_on_gpu", &VideoReaderObject::read_on_gpu, "frames"_a, "request"_a, nb::kw_only(), "device"_a,
             "stream"_a, "allocator"_a.none(), "kernel_folder"_a)
        .def("frames", &VideoReaderObject::frames, "frames"_a)
        .def("index", &VideoReaderObject::index)
        .def("times", &VideoReaderObject::times)
        .def("key_frames", &VideoReaderObject::key_frames)
        .def("num_frames", &VideoReaderObject::num_frames)
        .def("rate", &VideoReaderObject::rate)
        .def("usual_step", &VideoReaderObject::usual_step)
        .def("rotation", &VideoReaderObject::rotation)
        .def("damage", &VideoReaderObject::damage)
        .def("codec", &VideoReaderObject::codec);
    module.def("has_sws_scalers", [] { return sws_kernels() != nullptr; });
    module.def("sws_scalers", [] {
        std::vector<std::tuple<int, int, int, int, std::string, bool>> found;
        for (const auto& [form, works] : SwsScaler::all_known()) {
            found.emplace_back(form.from.width, form.from.height, form.to.width, form.to.height,
                               ffmpeg_format_name(form.to_format), works);
        }
        return found;
    });
    module.def("sample_video", &sample, "packets"_a, "frames"_a, "filters"_a, "options"_a);
}

}  // namespace spdl
