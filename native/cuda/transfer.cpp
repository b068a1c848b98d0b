#include "cuda/transfer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "core/storage.h"
#include "cuda/device.h"
#include "cuda/pinned.h"

namespace spdl::cuda {
namespace {

// Long enough that starting a copy costs little beside it, and short enough that two copies of a batch overlap.
constexpr std::size_t kChunk = std::size_t{2} << 20;

// Never destroyed: threads may copy until the process ends.
Storage& chunks() {
    static Storage& instance = *new Storage(kChunk, allocate_pinned);
    return instance;
}

// A copy on its way, and the memory that must not be used until it is done.
class Flight {
  public:
    explicit Flight(Stream stream) : stream_(stream) {
        check(driver().create_event(&landed_, kQuietEvent), "cuEventCreate", "preparing a transfer");
    }
    Flight(const Flight&) = delete;
    Flight& operator=(const Flight&) = delete;
    ~Flight() {
        if (memory_ && driver().wait_for_stream(stream_) != Status::kSuccess) {
            // Nobody can tell when the GPU is done with this memory, so it is never used again.
            static_cast<void>(new std::shared_ptr<void>(std::move(memory_)));
        }
        driver().destroy_event(landed_);
    }

    // `copy` is the driver's status for a copy from or to `memory`.
    template <typename Copy>
    void begin(std::shared_ptr<void> memory, const char* call, const std::string& what, Copy copy) {
        memory_ = std::move(memory);
        check(copy(), call, what);
        check(driver().record_event(landed_, stream_), "cuEventRecord", what);
    }

    void wait(const std::string& what) {
        if (memory_) {
            check(driver().wait_for_event(landed_), "cuEventSynchronize", what);
            memory_.reset();
        }
    }

  private:
    Stream stream_;
    Event landed_ = nullptr;
    std::shared_ptr<void> memory_;
};

void wait_for_default_stream(Stream stream, const std::string& what) {
    const Driver& api = driver();
    Event reached = nullptr;
    check(api.create_event(&reached, kQuietEvent), "cuEventCreate", what);
    const Status recorded = api.record_event(reached, default_stream());
    const Status ordered = recorded == Status::kSuccess ? api.stream_waits_for_event(stream, reached, 0) : recorded;
    // A destroyed event still does what it was recorded for.
    api.destroy_event(reached);
    check(ordered, recorded == Status::kSuccess ? "cuStreamWaitEvent" : "cuEventRecord", what);
}

std::string describe(const char* what, std::size_t bytes, Device device) {
    return std::string(what) + " GPU " + std::to_string(device) + " of " + std::to_string(bytes) + " bytes";
}

}  // namespace

void copy_to_device(const Buffer& from, DevicePointer to, Device device, Stream stream) {
    const Driver& api = driver();
    const ContextScope scope(device);
    const std::size_t bytes = from.bytes();
    const std::string what = describe("the transfer to", bytes, device);
    if (from.pinned) {
        Flight flight(stream);
        flight.begin(from.owner, "cuMemcpyHtoDAsync", what,
                     [&] { return api.copy_to_device(to, from.data, bytes, stream); });
        flight.wait(what);
        return;
    }
    std::array<Memory, 2> staged;
    std::array<Flight, 2> flights{Flight(stream), Flight(stream)};
    for (std::size_t start = 0, turn = 0; start < bytes; start += kChunk, turn ^= 1) {
        flights[turn].wait(what);
        if (!staged[turn].owner) {
            staged[turn] = chunks().take();
        }
        const std::size_t length = std::min(kChunk, bytes - start);
        std::memcpy(staged[turn].data, from.data + start, length);
        flights[turn].begin(staged[turn].owner, "cuMemcpyHtoDAsync", what,
                            [&] { return api.copy_to_device(to + start, staged[turn].data, length, stream); });
    }
    flights[0].wait(what);
    flights[1].wait(what);
}

void copy_to_host(DevicePointer from, const Buffer& to, Device device, Stream stream) {
    const Driver& api = driver();
    const ContextScope scope(device);
    const std::size_t bytes = to.bytes();
    const std::string what = describe("the transfer from", bytes, device);
    std::array<Flight, 2> flights{Flight(stream), Flight(stream)};
    wait_for_default_stream(stream, what);
    struct Chunk {
        Memory memory;
        std::size_t start = 0;
        std::size_t length = 0;
    };
    std::array<Chunk, 2> staged;
    const auto finish = [&](std::size_t turn) {
        flights[turn].wait(what);
        std::memcpy(to.data + staged[turn].start, staged[turn].memory.data, staged[turn].length);
        staged[turn].length = 0;
    };
    std::size_t turn = 0;
    for (std::size_t start = 0; start < bytes; start += kChunk, turn ^= 1) {
        Chunk& chunk = staged[turn];
        if (!chunk.memory.owner) {
            chunk.memory = chunks().take();
        } else {
            finish(turn);
        }
        chunk.start = start;
        chunk.length = std::min(kChunk, bytes - start);
        flights[turn].begin(chunk.memory.owner, "cuMemcpyDtoHAsync", what,
                            [&] { return api.copy_to_host(chunk.memory.data, from + start, chunk.length, stream); });
    }
    for (const std::size_t last : {turn, turn ^ 1}) {
        if (staged[last].length > 0) {
            finish(last);
        }
    }
}

}  // namespace spdl::cuda
