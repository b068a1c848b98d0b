#include "cuda/pinned.h"

#include <string>

#include "cuda/device.h"

namespace spdl::cuda {
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

}  // namespace spdl::cuda
