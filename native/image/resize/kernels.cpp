#include "image/resize/kernels.h"

#include <atomic>

namespace spdl {
namespace {

std::atomic<const Kernels*>& selected() {
    static std::atomic<const Kernels*> kernels = available_kernels().front();
    return kernels;
}

}  // namespace

std::vector<const Kernels*> available_kernels() {
    std::vector<const Kernels*> available;
    for (const Kernels* variant : {
#if defined(__x86_64__)
             &kAvx512Kernels,
             &kAvx2Kernels,
#elif defined(__aarch64__)
             &kNeonKernels,
#endif
             &kScalarKernels,
         }) {
        if (variant->supported()) {
            available.push_back(variant);
        }
    }
    return available;
}

const Kernels& kernels() noexcept {
    return *selected().load(std::memory_order_relaxed);
}

bool select_kernels(std::string_view name) {
    for (const Kernels* variant : available_kernels()) {
        if (name.empty() || name == variant->name) {
            selected().store(variant, std::memory_order_relaxed);
            return true;
        }
    }
    return false;
}

}  // namespace spdl
