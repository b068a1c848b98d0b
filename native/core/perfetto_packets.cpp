#include "core/perfetto_packets.h"

#include <time.h>

#include <algorithm>

namespace spdl::perfetto {
namespace {

#ifdef CLOCK_BOOTTIME
constexpr clockid_t kClock = CLOCK_BOOTTIME;
#else
constexpr clockid_t kClock = CLOCK_MONOTONIC;
#endif
// Perfetto's numbers of clocks. Times are on the first if a packet names no other.
constexpr std::uint64_t kBootTime = 6;
constexpr std::uint64_t kRealTime = 1;

enum PacketField : std::uint32_t {
    kClockSnapshot = 6,
    kTimestamp = 8,
    kSequence = 10,
    kTrackEvent = 11,
    kTrackDescriptor = 60,
};
enum TrackField : std::uint32_t { kUuid = 1, kTrackName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8 };
enum EventField : std::uint32_t { kType = 9, kTrack = 11, kEventName = 23, kValue = 30, kFraction = 44 };
enum EventType : std::uint64_t { kSliceBegin = 1, kSliceEnd = 2, kCounterValue = 4 };

std::uint64_t nanoseconds(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// Returns as much of a name as fits, and no part of a character.
std::string_view cut(std::string_view name) {
    if (name.size() <= kLongestName) {
        return name;
    }
    std::size_t size = kLongestName;
    while (size > 0 && (static_cast<unsigned char>(name[size]) & 0xc0) == 0x80) {
        --size;
    }
    return name.substr(0, size);
}

// The trace is a message whose only field, of number 1, is repeated for each packet. All packets come from one writer.
template <std::size_t Capacity>
Packet packet(PacketField field, const ProtobufMessage<Capacity>& content, std::uint64_t time = 0) {
    ProtobufMessage<kLongestName + 96> body;
    if (time != 0) {
        body.number(kTimestamp, time);
    }
    body.number(kSequence, std::uint64_t{1}).text(field, content.bytes());
    return Packet().text(1, body.bytes());
}

using Event = ProtobufMessage<kLongestName + 64>;

Event event(EventType type, std::uint64_t track) {
    return Event().number(kType, std::uint64_t{type}).number(kTrack, track);
}

}  // namespace

std::uint64_t now() {
    return nanoseconds(kClock);
}

Packet clocks() {
    ProtobufMessage<64> snapshot;
    snapshot.text(1, ProtobufMessage<24>().number(1, kBootTime).number(2, nanoseconds(kClock)).bytes());
    snapshot.text(1, ProtobufMessage<24>().number(1, kRealTime).number(2, nanoseconds(CLOCK_REALTIME)).bytes());
    return packet(kClockSnapshot, snapshot);
}

Packet process(std::uint64_t track, std::int64_t pid, std::string_view name) {
    ProtobufMessage<kLongestName + 32> process;
    process.number(1, static_cast<std::uint64_t>(pid)).text(6, cut(name));
    return packet(kTrackDescriptor, Event().number(kUuid, track).text(kProcess, process.bytes()));
}

Packet thread(std::uint64_t track, std::int64_t pid, std::int64_t tid, std::string_view name) {
    ProtobufMessage<kLongestName + 32> thread;
    thread.number(1, static_cast<std::uint64_t>(pid)).number(2, static_cast<std::uint64_t>(tid)).text(5, cut(name));
    return packet(kTrackDescriptor, Event().number(kUuid, track).text(kThread, thread.bytes()));
}

Packet counter(std::uint64_t track, std::uint64_t process_track, std::string_view name) {
    return packet(
        kTrackDescriptor,
        Event().number(kUuid, track).number(kParent, process_track).text(kTrackName, cut(name)).text(kCounter, ""));
}

Packet begin(std::uint64_t time, std::uint64_t track, std::string_view name) {
    return packet(kTrackEvent, event(kSliceBegin, track).text(kEventName, cut(name)), time);
}

Packet end(std::uint64_t time, std::uint64_t track) {
    return packet(kTrackEvent, event(kSliceEnd, track), time);
}

Packet value(std::uint64_t time, std::uint64_t track, std::variant<std::int64_t, double> value) {
    Event content = event(kCounterValue, track);
    if (const double* const fraction = std::get_if<double>(&value)) {
        content.number(kFraction, *fraction);
    } else {
        content.number(kValue, static_cast<std::uint64_t>(std::get<std::int64_t>(value)));
    }
    return packet(kTrackEvent, content, time);
}

}  // namespace spdl::perfetto
