#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "bindings/gil.h"
#include "core/aligned_buffer.h"

namespace spdl {

// A Python object that keeps memory alive for the arrays that show it.
inline nanobind::object own_memory(std::unique_ptr<AlignedBuffer> memory) {
    nanobind::object owner = nanobind::steal(PyCapsule_New(memory.get(), nullptr, [](PyObject* capsule) {
        auto* const held = static_cast<AlignedBuffer*>(PyCapsule_GetPointer(capsule, nullptr));
        if (held->size() < kLargeBytes) {
            delete held;
            return;
        }
        const ReleasedGil released;
        delete held;
    }));
    if (!owner.is_valid()) {
        throw nanobind::python_error();
    }
    static_cast<void>(memory.release());
    return owner;
}

}  // namespace spdl
