#include "cuda/device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace spdl::cuda {
namespace {

// How much unused device memory is kept for the next transfers. Otherwise each transfer would ask the system for its
// memory and return it, which takes longer than the copy.
constexpr std::uint64_t kKeptBytes = std::uint64_t{1} << 30;

struct DeviceState {
    Context context = nullptr;
    Pool pool = nullptr;  // Null if the device has no pools.
};

DeviceState open_device(Device index) {
    const Driver& api = driver();
    const std::string name = "opening GPU " + std::to_string(index);
    DeviceState state;
    check(api.retain_primary_context(&state.context, index), "cuDevicePrimaryCtxRetain", name);
    const ContextScope scope(state.context);
    int supported = 0;
    check(api.device_attribute(&supported, kMemoryPoolsSupported, index), "cuDeviceGetAttribute", name);
    if (supported != 0) {
        PoolProperties properties;
        properties.device = index;
        check(api.create_pool(&state.pool, &properties), "cuMemPoolCreate", name);
        std::uint64_t kept = kKeptBytes;
        check(api.set_pool_attribute(state.pool, kReleaseThreshold, &kept), "cuMemPoolSetAttribute", name);
    }
    return state;
}

// Opened once and never closed: other users' memory and streams depend on the contexts until the process ends.
const DeviceState& device_state(Device index) {
    static std::mutex& mutex = *new std::mutex;
    static auto& devices = *new std::vector<std::unique_ptr<DeviceState>>;
    const auto count = static_cast<std::size_t>(device_count());
    const std::scoped_lock lock(mutex);
    devices.resize(count);
    auto& state = devices.at(static_cast<std::size_t>(index));
    if (!state) {
        state = std::make_unique<DeviceState>(open_device(index));
    }
    return *state;
}

void free_device(Device device, DevicePointer memory) noexcept {
    if (!is_usable()) {
        return;
    }
    try {
        const DeviceState& state = device_state(device);
        const ContextScope scope(state.context);
        if (state.pool != nullptr) {
            driver().free_in_order(memory, default_stream());
        } else {
            driver().free(memory);
        }
    } catch (const CudaError&) {
        // The process is ending, or the failure of a kernel has ended everything on the device.
    }
}

}  // namespace

int device_count() {
    int count = 0;
    check(driver().device_count(&count), "cuDeviceGetCount", "counting GPUs");
    return count;
}

std::vector<std::string> device_names() {
    constexpr int kLongest = 256;
    std::vector<std::string> names;
    const int count = device_count();
    for (Device device = 0; device < count; ++device) {
        char name[kLongest] = {};
        check(driver().device_name(name, kLongest - 1, device), "cuDeviceGetName", "asking for a GPU's name");
        names.emplace_back(name);
    }
    return names;
}

ContextScope::ContextScope(Device device) : ContextScope(device_state(device).context) {}

ContextScope::ContextScope(Context context) {
    check(driver().push_context(context), "cuCtxPushCurrent", "entering a GPU's context");
}

ContextScope::~ContextScope() {
    Context popped = nullptr;
    driver().pop_context(&popped);
}

Context any_context() {
    const Driver& api = driver();
    Device current = 0;
    if (api.current_device(&current) == Status::kSuccess) {
        // This is the device's own context, whatever another library has made current: that one may be destroyed, and
        // the memory with it.
        return device_state(current).context;
    }
    const int count = device_count();
    for (Device device = 0; device < count; ++device) {
        unsigned flags = 0;
        int active = 0;
        if (api.primary_context_state(device, &flags, &active) == Status::kSuccess && active != 0) {
            return device_state(device).context;
        }
    }
    const char* const rank = std::getenv("LOCAL_RANK");
    const long wanted = rank == nullptr ? 0 : std::strtol(rank, nullptr, 10);
    return device_state(wanted > 0 && wanted < count ? static_cast<Device>(wanted) : 0).context;
}

DeviceMemory allocate_device(Device device, std::size_t bytes, Stream stream) {
    const Driver& api = driver();
    const DeviceState& state = device_state(device);
    const ContextScope scope(state.context);
    const std::string what = "allocating " + std::to_string(bytes) + " bytes on GPU " + std::to_string(device);
    // CUDA refuses to allocate 0 bytes.
    const std::size_t asked = bytes == 0 ? 1 : bytes;
    DevicePointer pointer = 0;
    if (state.pool != nullptr) {
        check(api.allocate_from_pool(&pointer, asked, state.pool, stream), "cuMemAllocFromPoolAsync", what);
    } else {
        check(api.allocate(&pointer, asked), "cuMemAlloc", what);
    }
    return {{nullptr, [device, pointer](void*) { free_device(device, pointer); }}, pointer};
}

namespace {

void free_pinned(Context context, void* memory) noexcept {
    if (!is_usable()) {
        return;
    }
    try {
        const ContextScope scope(context);
        driver().free_pinned(memory);
    } catch (const CudaError&) {
        // The process is ending, and its memory with it.
    }
}

}  // namespace

Memory allocate_pinned(std::size_t size) {
    const Context context = any_context();
    const ContextScope scope(context);
    void* memory = nullptr;
    check(driver().allocate_pinned(&memory, size, kPortable), "cuMemHostAlloc",
          "pinning " + std::to_string(size) + " bytes of main memory");
    return {{memory, [context](void* pinned) { free_pinned(context, pinned); }},
            static_cast<std::uint8_t*>(memory),
            size,
            true};
}

namespace {

// Long enough that starting a copy costs little beside it, and short enough that two copies of a batch overlap.
constexpr std::size_t kChunk = std::size_t{2} << 20;

// Never destroyed: threads may copy until the process ends.
Storage& chunks() {
    static Storage& instance = *new Storage(kChunk, allocate_pinned);
    return instance;
}

// A copy on its way, and the memory that must not be used until it is done.
class Flight : NonCopyable {
  public:
    explicit Flight(Stream stream) : stream_(stream) {
        check(driver().create_event(&landed_, kQuietEvent), "cuEventCreate", "preparing a transfer");
    }
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
