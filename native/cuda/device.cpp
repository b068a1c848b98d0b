#include "cuda/device.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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

}  // namespace spdl::cuda
