#pragma once

#include <libdeflate.h>

#include <memory>
#include <new>

namespace spdl {

// Returns the calling thread's own decompressor, which the thread keeps: making one costs more than inflating a small
// member. Throws std::bad_alloc.
inline libdeflate_decompressor* decompressor() {
    struct Free {
        void operator()(libdeflate_decompressor* held) const { libdeflate_free_decompressor(held); }
    };
    thread_local const std::unique_ptr<libdeflate_decompressor, Free> held(libdeflate_alloc_decompressor());
    if (held == nullptr) {
        throw std::bad_alloc();
    }
    return held.get();
}

}  // namespace spdl
