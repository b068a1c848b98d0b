#include "bindings/av_decoder.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/frame_reader.h"
#include "bindings/av_objects.h"
#include "bindings/frames.h"
#include "bindings/owned_mutex.h"
#include "core/interrupt.h"

namespace nb = nanobind;

namespace spdl {
namespace {

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
class DecoderObject {
  public:
    DecoderObject(const Codec<medium>& codec, const std::string& filters, const DecodeOptions& options)
        : reader_(run("Decoder", "Decoder", [&] {
              check_filters(filters);
              return std::make_unique<FrameReader>(codec.stream, options, filters);
          })) {}
    DecoderObject(const DecoderObject&) = delete;
    DecoderObject& operator=(const DecoderObject&) = delete;
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

    // Runs `step`, and takes the frames that are ready then. The lock is never waited for with the GIL held: whoever
    // has it may need the GIL, to let go of a packet.
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
        .def(nb::init<const Codec<medium>&, const std::string&, const DecodeOptions&>(), nb::arg("codec"),
             nb::arg("filters"), nb::arg("options"))
        .def("add", &Object::add, nb::arg("packets"))
        .def("next", &Object::next)
        .def("flush", &Object::flush)
        .def("set_buffer_size", &Object::set_buffer_size, nb::arg("size"));
    module.def("decode_av", &decode<medium>, nb::arg("packets"), nb::arg("filters"), nb::arg("options"),
               nb::arg("num_frames"), nb::arg("fills_gaps") = false);
}

}  // namespace

void bind_av_decoder(nb::module_& module) {
    bind_decoder<Medium::kAudio>(module, "AudioDecoder");
    bind_decoder<Medium::kVideo>(module, "VideoDecoder");
}

}  // namespace spdl
