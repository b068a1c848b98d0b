#include "cuda/driver.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace spdl::cuda {
namespace {

struct SearchFolders {
    std::mutex mutex;
    std::vector<std::string> folders;
};

// Never destroyed: threads may load libraries until the process ends.
SearchFolders& search_folders() {
    static SearchFolders& instance = *new SearchFolders;
    return instance;
}

bool is_absent(const std::string& message) {
    return message.find("No such file") != std::string::npos;
}

// Returns the files of a folder that are a library under the name that wheels with libraries inside give it: libX.so.13
// becomes libX.1234abcd.so.13.
std::vector<std::string> renamed(const std::string& folder, const std::string& file) {
    const std::size_t suffix = file.find(".so");
    if (suffix == std::string::npos) {
        return {};
    }
    const std::string pattern = folder + "/" + file.substr(0, suffix) + ".*" + file.substr(suffix);
    glob_t found{};
    std::vector<std::string> paths;
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    ::globfree(&found);
    return paths;
}

std::vector<std::string> candidates(const Library::Names& names) {
    if (const char* const replacement = std::getenv(names.replacement)) {
        return {replacement};
    }
    // A name alone also finds what is loaded already, by PyTorch for example.
    std::vector<std::string> paths = names.files;
    SearchFolders& search = search_folders();
    const std::scoped_lock lock(search.mutex);
    for (const std::string& file : names.files) {
        for (const std::string& folder : search.folders) {
            for (const char* const part : names.folders) {
                paths.push_back(folder + "/" + part + "/" + file);
            }
            const std::vector<std::string> inside = renamed(folder, file);
            paths.insert(paths.end(), inside.begin(), inside.end());
        }
    }
    return paths;
}

}  // namespace

Library::Library(const Names& names) : title_(names.title), too_old_(names.too_old) {
    std::string reason;
    for (const std::string& path : candidates(names)) {
        handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) {
            file_ = path;
            return;
        }
        // A file that is there and does not load says more than one that is not.
        const std::string said = dlerror();
        if (reason.empty() || (is_absent(reason) && !is_absent(said))) {
            reason = said;
        }
    }
    throw CudaUnavailable(title_ + " cannot be loaded (" + reason + "). " + names.remedy);
}

void* Library::address(const char* symbol) const {
    void* const found = dlsym(handle_, symbol);
    if (found == nullptr) {
        throw CudaUnavailable(title_ + " " + file_ + " has no " + symbol + ": " + too_old_);
    }
    return found;
}

std::string Library::path() const {
    return file_;
}

void set_search_folders(std::vector<std::string> folders) {
    SearchFolders& search = search_folders();
    const std::scoped_lock lock(search.mutex);
    search.folders = std::move(folders);
}

std::vector<std::string> toolkit_files(const std::string& stem) {
    constexpr int kOldest = 12;
    constexpr int kNewest = 13;
    std::vector<std::string> files;
    for (int major = kNewest; major >= kOldest; --major) {
        // A toolkit runs on the drivers of its major version and of later ones.
        if (major <= driver_version() / 1000) {
            files.push_back(stem + ".so." + std::to_string(major));
        }
    }
    return files;
}

namespace {

// The process that loaded the driver. A forked child inherits a library that no longer works.
std::atomic<pid_t> loaded_in{0};

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "is not set" : "is \"" + std::string(value) + "\"";
}

Driver load() {
    const Library library({"CUDA's driver library",
                           "SPDL_TEST_CUDA_DRIVER",
                           {"libcuda.so.1"},
                           {},
                           "It comes with NVIDIA's driver: install that on this machine, or give the container access "
                           "to its GPUs (docker run --gpus all)",
                           "it is older than CUDA 11.2; update NVIDIA's driver to release 460 or newer"});
    Driver driver{};
    library.find("cuInit", driver.init);
    library.find("cuGetErrorName", driver.error_name);
    library.find("cuGetErrorString", driver.error_string);
    library.find("cuDriverGetVersion", driver.version);
    library.find("cuDeviceGetCount", driver.device_count);
    library.find("cuDeviceGetName", driver.device_name);
    library.find("cuDeviceGetAttribute", driver.device_attribute);
    library.find("cuDevicePrimaryCtxRetain", driver.retain_primary_context);
    library.find("cuDevicePrimaryCtxGetState", driver.primary_context_state);
    library.find("cuCtxGetDevice", driver.current_device);
    library.find("cuCtxPushCurrent_v2", driver.push_context);
    library.find("cuCtxPopCurrent_v2", driver.pop_context);
    library.find("cuMemHostAlloc", driver.allocate_pinned);
    library.find("cuMemFreeHost", driver.free_pinned);
    library.find("cuMemPoolCreate", driver.create_pool);
    library.find("cuMemPoolSetAttribute", driver.set_pool_attribute);
    library.find("cuMemAllocFromPoolAsync", driver.allocate_from_pool);
    library.find("cuMemFreeAsync", driver.free_in_order);
    library.find("cuMemAlloc_v2", driver.allocate);
    library.find("cuMemFree_v2", driver.free);
    library.find("cuMemcpyHtoDAsync_v2", driver.copy_to_device);
    library.find("cuMemcpyDtoHAsync_v2", driver.copy_to_host);
    library.find("cuMemcpy2DAsync_v2", driver.copy_2d);
    library.find("cuModuleLoadData", driver.load_module);
    library.find("cuModuleGetFunction", driver.find_function);
    library.find("cuLaunchKernel", driver.launch);
    library.find("cuEventCreate", driver.create_event);
    library.find("cuEventRecord", driver.record_event);
    library.find("cuEventSynchronize", driver.wait_for_event);
    library.find("cuEventDestroy_v2", driver.destroy_event);
    library.find("cuStreamWaitEvent", driver.stream_waits_for_event);
    library.find("cuStreamSynchronize", driver.wait_for_stream);
    driver.path = library.path();
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

int driver_version() {
    int version = 0;
    check(driver().version(&version), "cuDriverGetVersion", "asking for the driver's version");
    return version;
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
