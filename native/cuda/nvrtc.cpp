#include "cuda/nvrtc.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cuda/driver.h"
#include "cuda/library.h"

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

void check(CompilerStatus status, const char* call) {
    if (status != CompilerStatus::kSuccess) {
        throw CudaError(std::string("compiling kernels failed: ") + call + " returned " +
                        std::to_string(static_cast<int>(status)) + " (" + nvrtc().error_string(status) + ")");
    }
}

// Returns what the compiler said, of which nobody has to know if that cannot be had.
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
    check(api.num_architectures(&count), "nvrtcGetNumSupportedArchs");
    std::vector<int> known(static_cast<std::size_t>(std::max(count, 1)));
    check(api.architectures(known.data()), "nvrtcGetSupportedArchs");
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
    check(nvrtc().version(&major, &minor), "nvrtcVersion");
    return std::to_string(major) + "." + std::to_string(minor);
}

std::string compile(const char* source, int architecture) {
    const Nvrtc& api = nvrtc();
    Program created = nullptr;
    check(api.create_program(&created, source, "spdl.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
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
    check(as_binary ? api.binary_size(program.get(), &size) : api.assembly_size(program.get(), &size),
          as_binary ? "nvrtcGetCUBINSize" : "nvrtcGetPTXSize");
    std::string compiled(size, '\0');
    check(as_binary ? api.binary(program.get(), compiled.data()) : api.assembly(program.get(), compiled.data()),
          as_binary ? "nvrtcGetCUBIN" : "nvrtcGetPTX");
    return compiled;
}

}  // namespace spdl::cuda
