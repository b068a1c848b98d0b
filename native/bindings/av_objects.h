#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "av/frame_reader.h"
#include "av/packet_list.h"
#include "av/stream.h"
#include "bindings/consumable.h"
#include "media/time_window.h"

namespace spdl {

// The Python objects over audio and video. Those of the two media are classes of their own.

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

}  // namespace spdl
