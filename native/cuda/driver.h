#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace spdl::cuda {

// A shared library of NVIDIA's, which is loaded by its name when it is first needed and stays until the process ends.
class Library {
  public:
    // The names of a library, and the message if it is missing.
    struct Names {
        const char* title;                 // In messages.
        const char* replacement;           // An environment variable that names another file, for our tests.
        std::vector<std::string> files;    // In the order in which they are tried,
        std::vector<const char*> folders;  // beside the places of the system, in these parts of the search folders.
        const char* remedy;                // Where it comes from.
        const char* too_old;               // What to do if it lacks a function.
    };

    // Throws CudaUnavailable, which lists the places that were searched and the remedy.
    explicit Library(const Names& names);

    // Finds a function. Throws CudaUnavailable if the library lacks it.
    template <typename Function>
    void find(const char* symbol, Function& function) const {
        function = reinterpret_cast<Function>(address(symbol));
    }

    // Returns the file that was loaded.
    [[nodiscard]] std::string path() const;

  private:
    [[nodiscard]] void* address(const char* symbol) const;

    void* handle_ = nullptr;
    std::string file_;
    std::string title_;
    std::string too_old_;
};

// The folders of this Python's nvidia-* packages, and of wheels that have some of NVIDIA's libraries inside. They are
// searched after the places of the system.
void set_search_folders(std::vector<std::string> folders);

// Returns the names of a library of the CUDA toolkit for the majors that the driver serves, newest first: "libX.so.13",
// "libX.so.12".
std::vector<std::string> toolkit_files(const std::string& stem);

// The part of CUDA's driver interface that is used here. The library is loaded when it is first needed, so one build
// serves machines with and without a GPU. Its declarations are ours, so building needs no CUDA.

enum class Status : int {
    kSuccess = 0,
    kOutOfMemory = 2,
    kNotInitialized = 3,
    kNoDevice = 100,
    kInvalidHandle = 400,
    kIllegalAddress = 700,
    kLaunchFailed = 719,
};

using Device = int;
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Pool = struct PoolHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using DevicePointer = std::uint64_t;

// CUmemPoolProps.
struct PoolProperties {
    int allocation_type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED, the only one.
    int handle_types = 0;
    int location_type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE.
    int device = 0;
    void* security = nullptr;
    unsigned char reserved[64] = {};
};

// CUDA_MEMCPY2D, between memory of devices; memory types are CU_MEMORYTYPE_DEVICE.
struct Copy2d {
    std::size_t from_x = 0;
    std::size_t from_y = 0;
    int from_type = 2;
    const void* from_host = nullptr;
    DevicePointer from = 0;
    void* from_array = nullptr;
    std::size_t from_pitch = 0;
    std::size_t to_x = 0;
    std::size_t to_y = 0;
    int to_type = 2;
    void* to_host = nullptr;
    DevicePointer to = 0;
    void* to_array = nullptr;
    std::size_t to_pitch = 0;
    std::size_t width_bytes = 0;
    std::size_t height = 0;
};

inline constexpr unsigned kPortable = 1;             // CU_MEMHOSTALLOC_PORTABLE: pinned for all devices.
inline constexpr unsigned kQuietEvent = 1 | 2;       // CU_EVENT_BLOCKING_SYNC: sleep, do not spin. No timing.
inline constexpr int kMemoryPoolsSupported = 115;    // CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED.
inline constexpr int kMajorOfArchitecture = 75;      // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR.
inline constexpr int kMinorOfArchitecture = 76;      // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR.
inline constexpr int kReleaseThreshold = 4;          // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
inline constexpr std::uintptr_t kDefaultStream = 1;  // CU_STREAM_LEGACY.

struct Driver {
    Status (*init)(unsigned flags);
    Status (*error_name)(Status status, const char** name);
    Status (*error_string)(Status status, const char** text);
    Status (*version)(int* version);
    Status (*device_count)(int* count);
    Status (*device_name)(char* name, int size, Device device);
    Status (*device_attribute)(int* value, int attribute, Device device);
    Status (*retain_primary_context)(Context* context, Device device);
    Status (*primary_context_state)(Device device, unsigned* flags, int* active);
    Status (*current_device)(Device* device);
    Status (*push_context)(Context context);
    Status (*pop_context)(Context* context);
    Status (*allocate_pinned)(void** memory, std::size_t bytes, unsigned flags);
    Status (*free_pinned)(void* memory);
    Status (*create_pool)(Pool* pool, const PoolProperties* properties);
    Status (*set_pool_attribute)(Pool pool, int attribute, void* value);
    Status (*allocate_from_pool)(DevicePointer* memory, std::size_t bytes, Pool pool, Stream stream);
    Status (*free_in_order)(DevicePointer memory, Stream stream);
    Status (*allocate)(DevicePointer* memory, std::size_t bytes);
    Status (*free)(DevicePointer memory);
    Status (*copy_to_device)(DevicePointer to, const void* from, std::size_t bytes, Stream stream);
    Status (*copy_to_host)(void* to, DevicePointer from, std::size_t bytes, Stream stream);
    Status (*copy_2d)(const Copy2d* copy, Stream stream);
    Status (*load_module)(Module* module, const void* image);
    Status (*find_function)(Function* function, Module module, const char* name);
    Status (*launch)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments,
                     void** extra);
    Status (*create_event)(Event* event, unsigned flags);
    Status (*record_event)(Event event, Stream stream);
    Status (*wait_for_event)(Event event);
    Status (*destroy_event)(Event event);
    Status (*stream_waits_for_event)(Stream stream, Event event, unsigned flags);
    Status (*wait_for_stream)(Stream stream);
    std::string path;
};

// Python sees a RuntimeError with the same text.
class CudaError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// No GPU is usable, or its driver is missing.
class CudaUnavailable : public CudaError {
  public:
    using CudaError::CudaError;
};

// Returns the driver, which the first call loads and initialises. Throws CudaUnavailable, which says what is missing
// and what to do.
const Driver& driver();

// Returns the newest CUDA that the driver serves, as 1000 * major + 10 * minor. Throws as driver() does.
int driver_version();

// Returns false if this process must not call the driver: nothing was loaded yet, or the parent of a fork loaded it.
bool is_usable() noexcept;

// Throws CudaError unless the named call succeeded; `what` says what the call was for.
void check(Status status, const char* call, const std::string& what);

inline Stream default_stream() {
    return reinterpret_cast<Stream>(kDefaultStream);
}

}  // namespace spdl::cuda
