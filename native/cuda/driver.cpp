#include "cuda/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace spdl::cuda {
namespace {

// The process that loaded the driver. A forked child inherits a library that no longer works.
std::atomic<pid_t> loaded_in{0};

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "is not set" : "is \"" + std::string(value) + "\"";
}

template <typename Function>
void find(void* library, const std::string& path, const char* symbol, Function& function) {
    void* const found = dlsym(library, symbol);
    if (found == nullptr) {
        throw CudaUnavailable("CUDA's driver library " + path + " has no " + symbol +
                              ": it is older than CUDA 11.2; update NVIDIA's driver to release 460 or newer");
    }
    function = reinterpret_cast<Function>(found);
}

Driver load() {
    // For the tests of this project, which bring a driver of their own. It has no other use.
    const char* const replacement = std::getenv("SPDL_TEST_CUDA_DRIVER");
    const std::string path = replacement == nullptr ? "libcuda.so.1" : replacement;
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        throw CudaUnavailable("CUDA's driver library cannot be loaded (" + std::string(dlerror()) +
                              "). It comes with NVIDIA's driver: install that on this machine, or give the container "
                              "access to its GPUs (docker run --gpus all)");
    }
    Driver driver{};
    find(library, path, "cuInit", driver.init);
    find(library, path, "cuGetErrorName", driver.error_name);
    find(library, path, "cuGetErrorString", driver.error_string);
    find(library, path, "cuDeviceGetCount", driver.device_count);
    find(library, path, "cuDeviceGetAttribute", driver.device_attribute);
    find(library, path, "cuDevicePrimaryCtxRetain", driver.retain_primary_context);
    find(library, path, "cuDevicePrimaryCtxGetState", driver.primary_context_state);
    find(library, path, "cuCtxGetDevice", driver.current_device);
    find(library, path, "cuCtxPushCurrent_v2", driver.push_context);
    find(library, path, "cuCtxPopCurrent_v2", driver.pop_context);
    find(library, path, "cuMemHostAlloc", driver.allocate_pinned);
    find(library, path, "cuMemFreeHost", driver.free_pinned);
    find(library, path, "cuMemPoolCreate", driver.create_pool);
    find(library, path, "cuMemPoolSetAttribute", driver.set_pool_attribute);
    find(library, path, "cuMemAllocFromPoolAsync", driver.allocate_from_pool);
    find(library, path, "cuMemFreeAsync", driver.free_in_order);
    find(library, path, "cuMemAlloc_v2", driver.allocate);
    find(library, path, "cuMemFree_v2", driver.free);
    find(library, path, "cuMemcpyHtoDAsync_v2", driver.copy_to_device);
    find(library, path, "cuMemcpyDtoHAsync_v2", driver.copy_to_host);
    find(library, path, "cuEventCreate", driver.create_event);
    find(library, path, "cuEventRecord", driver.record_event);
    find(library, path, "cuEventSynchronize", driver.wait_for_event);
    find(library, path, "cuEventDestroy_v2", driver.destroy_event);
    find(library, path, "cuStreamWaitEvent", driver.stream_waits_for_event);
    find(library, path, "cuStreamSynchronize", driver.wait_for_stream);
    return driver;
}

std::string describe(const Driver& driver, Status status) {
    const char* name = nullptr;
    const char* text = nullptr;
    if (driver.error_name(status, &name) != Status::kSuccess || name == nullptr ||
        driver.error_string(status, &text) != Status::kSuccess || text == nullptr) {
        return "CUDA error " + std::to_string(static_cast<int>(status));
    }
    return std::string(name) + " (" + text + ")";
}

const char* remedy(Status status) {
    switch (status) {
        case Status::kOutOfMemory:
            return ": use smaller batches or hold fewer of them at once, or free what others use";
        case Status::kInvalidHandle:
            return ": `stream` must be the handle of a stream of the same device that still exists, such as "
                   "`torch_stream.cuda_stream`";
        case Status::kIllegalAddress:
        case Status::kLaunchFailed:
            return ": a kernel that this process ran before has failed, and with it all that follows; run with "
                   "CUDA_LAUNCH_BLOCKING=1 to see which";
        default:
            return "";
    }
}

Driver initialise() {
    const Driver driver = load();
    const Status status = driver.init(0);
    int count = 0;
    if (status == Status::kNoDevice ||
        (status == Status::kSuccess && driver.device_count(&count) == Status::kSuccess && count == 0)) {
        throw CudaUnavailable(
            "CUDA's driver is here but sees no GPU: see what `nvidia-smi` lists, and whether CUDA_VISIBLE_DEVICES, "
            "which " +
            environment("CUDA_VISIBLE_DEVICES") + ", hides it");
    }
    if (status != Status::kSuccess) {
        throw CudaUnavailable("CUDA's driver does not start: cuInit failed with " + describe(driver, status) +
                              "; see whether `nvidia-smi` works, and reboot after an update of the driver");
    }
    loaded_in = getpid();
    return driver;
}

}  // namespace

const Driver& driver() {
    // If this throws, the next call tries again.
    static const Driver instance = initialise();
    if (loaded_in != getpid()) {
        throw CudaUnavailable(
            "CUDA was used in this process's parent before the fork, and does not work in the child: start worker "
            "processes with the \"spawn\" or \"forkserver\" method, or use CUDA in one of the two only");
    }
    return instance;
}

bool is_usable() noexcept {
    return loaded_in == getpid();
}

void check(Status status, const char* call, const std::string& what) {
    if (status != Status::kSuccess) {
        throw CudaError(what + " failed: " + call + " returned " + describe(driver(), status) + remedy(status));
    }
}

}  // namespace spdl::cuda
