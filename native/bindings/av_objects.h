#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "av/container.h"
#include "av/frame_reader.h"
#include "av/packets.h"
#include "bindings/image_objects.h"
#include "bindings/native_call.h"
#include "core/errors.h"
#include "core/non_copyable.h"
#include "media/options.h"

namespace spdl {

// The Python objects over audio and video. The two media have separate classes.

template <Medium medium>
struct Codec {
    std::shared_ptr<const Stream> stream;
};

template <Medium medium>
struct HeldPackets {
    static constexpr const char* kConsumed =
        medium == Medium::kAudio
            ? "these AudioPackets were consumed by the function that they were passed to: call clone() first to use "
              "them again"
            : "these VideoPackets were consumed by the function that they were passed to: call clone() first to use "
              "them again";

    std::string name;
    PacketList list;

    [[nodiscard]] std::size_t bytes() const { return list.bytes(); }
    void free() { list.packets.clear(); }
};

template <Medium medium>
struct HeldFrames {
    static constexpr const char* kConsumed =
        medium == Medium::kAudio
            ? "these AudioFrames were consumed by the function that they were passed to: call clone() first to use "
              "them again"
            : "these VideoFrames were consumed by the function that they were passed to: call clone() first to use "
              "them again";

    std::string name;
    FrameList list;

    [[nodiscard]] std::size_t bytes() const { return list.bytes(); }
    void free() { list.frames.clear(); }
};

template <Medium medium>
using PacketsOf = Consumable<HeldPackets<medium>>;

template <Medium medium>
using FramesOf = Consumable<HeldFrames<medium>>;

// Returns a moment as Python writes it, as (numerator, denominator).
inline std::optional<Moment> moment(const std::optional<std::pair<std::int64_t, int>>& seconds) {
    return seconds ? std::optional(Moment{seconds->first, seconds->second}) : std::nullopt;
}

// Returns the packets as Python sees them.
template <Medium medium>
nanobind::object wrap_packets(std::string name, PacketList list) {
    return nanobind::cast(PacketsOf<medium>(HeldPackets<medium>{std::move(name), std::move(list)}));
}

inline nanobind::object wrap_packets(std::string name, PacketList list) {
    return list.stream->medium == Medium::kAudio ? wrap_packets<Medium::kAudio>(std::move(name), std::move(list))
                                                 : wrap_packets<Medium::kVideo>(std::move(name), std::move(list));
}

// Returns the frames as Python sees them.
template <Medium medium>
nanobind::object wrap_frames(std::string name, FrameList list) {
    return nanobind::cast(FramesOf<medium>(HeldFrames<medium>{std::move(name), std::move(list)}));
}

inline nanobind::object wrap_frames(std::string name, FrameList list) {
    return list.medium == Medium::kAudio ? wrap_frames<Medium::kAudio>(std::move(name), std::move(list))
                                         : wrap_frames<Medium::kVideo>(std::move(name), std::move(list));
}

// The Python object over an open file. Any number of threads may use it, one after the other.
class DemuxerObject : NonCopyable {
  public:
    DemuxerObject(std::string name, std::unique_ptr<ByteSource> source, const DemuxOptions& options, Probing probing,
                  bool costly = false)
        : name_(std::move(name)), container_(run("Demuxer", name_, [&] {
              return std::make_unique<Container>(std::move(source), options, probing, costly);
          })) {}
    ~DemuxerObject() { close(); }

    // Runs `work` on the container, without the GIL.
    template <typename Work>
    auto use(const char* call, Work&& work) {
        return run(call, name_, [&] {
            const std::scoped_lock lock(mutex_);
            if (!container_) {
                throw MediaError("the Demuxer was closed");
            }
            return work(*container_);
        });
    }

    void close() {
        std::unique_ptr<Container> closed;
        {
            const ReleasedGil released;
            const std::scoped_lock lock(mutex_);
            closed = std::move(container_);
        }
        const ReleasedGil released;
        closed.reset();
    }

    // Returns the container, which this object then has no more.
    std::unique_ptr<Container> release() {
        return use("VideoReader", [&](Container& /*container*/) { return std::move(container_); });
    }

    [[nodiscard]] const std::string& name() const { return name_; }

  private:
    std::string name_;
    std::unique_ptr<Container> container_;
    OwnedMutex mutex_;
};

void bind_av_demuxer(nanobind::module_& module);

// Packets as bytes, for pickle.

nanobind::object serialize(const PacketsObject& object);
nanobind::object serialize(const PacketsOf<Medium::kAudio>& object);
nanobind::object serialize(const PacketsOf<Medium::kVideo>& object);

// Return the packets in such bytes. They are not copied unless `copy`.
void deserialize(nanobind::handle bytes, bool copy, PacketsObject*& made);
void deserialize(nanobind::handle bytes, bool copy, PacketsOf<Medium::kAudio>*& made);
void deserialize(nanobind::handle bytes, bool copy, PacketsOf<Medium::kVideo>*& made);

// Adds the methods that pickle calls, and those that take its bytes.
template <typename Object>
void bind_pickling(nanobind::class_<Object>& bound) {
    const auto restore = [](bool copy) {
        return [copy](const nanobind::object& data) {
            Object* made = nullptr;
            deserialize(data, copy, made);
            return made;
        };
    };
    bound
        .def_static("deserialize", restore(true), nanobind::arg("data"), nanobind::rv_policy::take_ownership,
                    "Packets from the bytes that `__getstate__` makes, which are copied.\n"
                    "\n"
                    "Damaged bytes are a RuntimeError.")
        .def_static("deserialize_view", restore(false), nanobind::arg("data"), nanobind::rv_policy::take_ownership,
                    "Packets that lie in the given bytes, which they keep alive. Do not change them meanwhile.\n"
                    "\n"
                    "Damaged bytes are a RuntimeError.")
        .def(
            "__getstate__", [](const Object& self) { return serialize(self).attr("tobytes")(); },
            "The packets as bytes, for `deserialize` and `deserialize_view`.")
        .def("_serialize", [](const Object& self) { return serialize(self); })
        .def(
            "__reduce_ex__",
            [](nanobind::handle_t<Object> self, int protocol) {
                return nanobind::module_::import_("spdl.io._av.demuxer").attr("reduce_packets")(self, protocol);
            },
            nanobind::arg("protocol"), "For pickle. With protocol 5 the packets need not be copied.");
}

}  // namespace spdl
