#include "cuda/kernels.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/errors.h"
#include "core/files.h"
#include "cuda/device.h"

namespace spdl::cuda {
namespace {

Nvrtc load() {
    const Library library(
        {"NVRTC, the compiler of CUDA C++",
         "SPDL_TEST_NVRTC",
         toolkit_files("libnvrtc"),
         {"cuda_nvrtc/lib", "cu13/lib", "targets/x86_64-linux/lib", "lib64"},
         "It comes with CUDA's toolkit, with PyTorch, and with the package nvidia-cuda-nvrtc-cu12 (for CUDA 13: "
         "nvidia-cuda-nvrtc), which you can install with pip",
         "it is older than CUDA 12; install the package nvidia-cuda-nvrtc-cu12"});
    Nvrtc api{};
    library.find("nvrtcGetErrorString", api.error_string);
    library.find("nvrtcVersion", api.version);
    library.find("nvrtcGetNumSupportedArchs", api.num_architectures);
    library.find("nvrtcGetSupportedArchs", api.architectures);
    library.find("nvrtcCreateProgram", api.create_program);
    library.find("nvrtcDestroyProgram", api.destroy_program);
    library.find("nvrtcCompileProgram", api.compile);
    library.find("nvrtcGetProgramLogSize", api.log_size);
    library.find("nvrtcGetProgramLog", api.log);
    library.find("nvrtcGetPTXSize", api.assembly_size);
    library.find("nvrtcGetPTX", api.assembly);
    library.find("nvrtcGetCUBINSize", api.binary_size);
    library.find("nvrtcGetCUBIN", api.binary);
    api.path = library.path();
    return api;
}

void check_compiler(CompilerStatus status, const char* call) {
    if (status != CompilerStatus::kSuccess) {
        throw CudaError(std::string("compiling kernels failed: ") + call + " returned " +
                        std::to_string(static_cast<int>(status)) + " (" + nvrtc().error_string(status) + ")");
    }
}

// Returns the compiler's log; it does not matter if that cannot be read.
std::string log_of(const Nvrtc& api, Program program) {
    std::size_t size = 0;
    if (api.log_size(program, &size) != CompilerStatus::kSuccess || size <= 1) {
        return {};
    }
    std::string log(size, '\0');
    return api.log(program, log.data()) == CompilerStatus::kSuccess ? ":\n" + std::string(log.c_str()) : std::string();
}

// Returns the newest architecture that the compiler knows and the chip runs.
int newest(const Nvrtc& api, int architecture) {
    int count = 0;
    check_compiler(api.num_architectures(&count), "nvrtcGetNumSupportedArchs");
    std::vector<int> known(static_cast<std::size_t>(std::max(count, 1)));
    check_compiler(api.architectures(known.data()), "nvrtcGetSupportedArchs");
    int best = 0;
    for (const int each : known) {
        best = each <= architecture ? std::max(best, each) : best;
    }
    if (best == 0) {
        throw CudaUnavailable(api.path + ", of CUDA " + nvrtc_version() +
                              ", compiles no kernels for this GPU of architecture " + std::to_string(architecture) +
                              ": the GPU is too old");
    }
    return best;
}

struct DestroyProgram {
    void operator()(Program program) const noexcept { nvrtc().destroy_program(&program); }
};

}  // namespace

const Nvrtc& nvrtc() {
    driver();
    // If this throws, the next call tries again.
    static const Nvrtc instance = load();
    return instance;
}

std::string nvrtc_version() {
    int major = 0;
    int minor = 0;
    check_compiler(nvrtc().version(&major, &minor), "nvrtcVersion");
    return std::to_string(major) + "." + std::to_string(minor);
}

std::string compile(const char* source, int architecture) {
    const Nvrtc& api = nvrtc();
    Program created = nullptr;
    check_compiler(api.create_program(&created, source, "spdl.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
    const std::unique_ptr<ProgramHandle, DestroyProgram> program(created);
    const int known = newest(api, architecture);
    const bool as_binary = known == architecture;
    const std::string target =
        "--gpu-architecture=" + std::string(as_binary ? "sm_" : "compute_") + std::to_string(known);
    const char* const options[] = {target.c_str(), "--std=c++17"};
    const CompilerStatus status = api.compile(program.get(), 2, options);
    if (status != CompilerStatus::kSuccess) {
        throw CudaError("compiling kernels with " + target + " failed: nvrtcCompileProgram returned " +
                        std::to_string(static_cast<int>(status)) + " (" + api.error_string(status) + ")" +
                        log_of(api, program.get()));
    }
    std::size_t size = 0;
    check_compiler(as_binary ? api.binary_size(program.get(), &size) : api.assembly_size(program.get(), &size),
                   as_binary ? "nvrtcGetCUBINSize" : "nvrtcGetPTXSize");
    std::string compiled(size, '\0');
    check_compiler(
        as_binary ? api.binary(program.get(), compiled.data()) : api.assembly(program.get(), compiled.data()),
        as_binary ? "nvrtcGetCUBIN" : "nvrtcGetPTX");
    return compiled;
}

namespace {

// FNV-1a.
std::uint64_t hash(std::string_view text) {
    std::uint64_t value = 0xcbf29ce484222325U;
    for (const char byte : text) {
        value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
    }
    return value;
}

int architecture(Device device) {
    int major = 0;
    int minor = 0;
    const char* const what = "asking for a GPU's architecture";
    check(driver().device_attribute(&major, kMajorOfArchitecture, device), "cuDeviceGetAttribute", what);
    check(driver().device_attribute(&minor, kMinorOfArchitecture, device), "cuDeviceGetAttribute", what);
    return 10 * major + minor;
}

// Returns what was kept; empty if there is nothing, or it is not what was written.
std::string read_kept(const std::string& file) {
    try {
        FileReader reader;
        const Bytes bytes = reader.read(file);
        std::uint64_t expected = 0;
        if (bytes.size() <= sizeof(expected)) {
            return {};
        }
        std::memcpy(&expected, bytes.data(), sizeof(expected));
        std::string content(bytes.begin() + sizeof(expected), bytes.end());
        return hash(content) == expected ? content : std::string();
    } catch (const MediaError&) {
        return {};
    }
}

void make_folders(const std::string& folder) {
    for (std::size_t end = folder.find('/', 1); end != std::string::npos; end = folder.find('/', end + 1)) {
        ::mkdir(folder.substr(0, end).c_str(), 0777);
    }
    ::mkdir(folder.c_str(), 0777);
}

// A folder that cannot be written to costs the next process a compilation, and nothing else.
void keep(const std::string& folder, const std::string& file, const std::string& compiled) {
    make_folders(folder);
    std::string written = file + ".XXXXXX";
    const int descriptor = ::mkstemp(written.data());
    if (descriptor < 0) {
        return;
    }
    const std::uint64_t sum = hash(compiled);
    bool whole = true;
    try {
        FileSink sink(descriptor);
        sink.write({reinterpret_cast<const std::uint8_t*>(&sum), sizeof(sum)});
        sink.write({reinterpret_cast<const std::uint8_t*>(compiled.data()), compiled.size()});
    } catch (const MediaError&) {
        whole = false;
    }
    whole = ::close(descriptor) == 0 && whole;
    if (!whole || std::rename(written.c_str(), file.c_str()) != 0) {
        ::unlink(written.c_str());
    }
}

Module load_module(Device device, const std::string& cache_folder) {
    const int target = architecture(device);
    const std::string name =
        "kernels-sm_" + std::to_string(target) + "-" + std::to_string(hash(kernel_source())) + ".bin";
    const std::string file = cache_folder + "/" + name;
    Module module = nullptr;
    const std::string kept = read_kept(file);
    // Code that another driver does not load is compiled again.
    if (!kept.empty() && driver().load_module(&module, kept.c_str()) == Status::kSuccess) {
        return module;
    }
    const std::string compiled = compile(kernel_source(), target);
    check(driver().load_module(&module, compiled.c_str()), "cuModuleLoadData", "loading kernels");
    keep(cache_folder, file, compiled);
    return module;
}

Kernels find_kernels(Device device, const std::string& cache_folder) {
    const ContextScope scope(device);
    const Module module = load_module(device, cache_folder);
    Kernels found;
    const auto find = [module](Function& function, const char* name) {
        check(driver().find_function(&function, module, name), "cuModuleGetFunction", std::string("finding ") + name);
    };
    find(found.convert_planes, "convert_planes");
    find(found.filter_pixels, "filter_pixels");
    find(found.write_canvas, "write_canvas");
    find(found.convert_to_planes, "convert_to_planes");
    find(found.convert_to_pixels, "convert_to_pixels");
    return found;
}

}  // namespace

const Kernels& load_kernels(Device device, const std::string& cache_folder) {
    static std::mutex& mutex = *new std::mutex;
    static auto& loaded = *new std::vector<std::unique_ptr<Kernels>>;
    const auto count = static_cast<std::size_t>(device_count());
    const std::scoped_lock lock(mutex);
    loaded.resize(count);
    auto& found = loaded.at(static_cast<std::size_t>(device));
    if (!found) {
        found = std::make_unique<Kernels>(find_kernels(device, cache_folder));
    }
    return *found;
}

void launch(Function kernel, int width, int height, int count, void* arguments, Stream stream, const char* name) {
    constexpr unsigned kAcross = 32;
    constexpr unsigned kDown = 8;
    const auto blocks = [](int side, unsigned block) { return (static_cast<unsigned>(side) + block - 1) / block; };
    void* given[] = {arguments};
    check(driver().launch(kernel, blocks(width, kAcross), blocks(height, kDown), static_cast<unsigned>(count), kAcross,
                          kDown, 1, 0, stream, given, nullptr),
          "cuLaunchKernel", std::string("running ") + name);
}

}  // namespace spdl::cuda
