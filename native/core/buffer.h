#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/storage.h"

namespace spdl {

enum class ElementType { kUint8, kUint16, kInt16, kInt32, kInt64, kFloat16, kFloat32, kFloat64 };

constexpr std::size_t element_bytes(ElementType type) {
    switch (type) {
        case ElementType::kUint16:
        case ElementType::kInt16:
        case ElementType::kFloat16:
            return 2;
        case ElementType::kInt32:
        case ElementType::kFloat32:
            return 4;
        case ElementType::kInt64:
        case ElementType::kFloat64:
            return 8;
        case ElementType::kUint8:
            break;
    }
    return 1;
}

// A C-contiguous array and what keeps its memory alive.
struct Buffer {
    std::shared_ptr<void> owner;
    std::uint8_t* data = nullptr;
    std::vector<std::size_t> shape;
    ElementType type = ElementType::kUint8;
    bool pinned = false;

    [[nodiscard]] std::size_t bytes() const {
        std::size_t size = element_bytes(type);
        for (const std::size_t side : shape) {
            size *= side;
        }
        return size;
    }
};

// Makes an array of this shape at the start of `memory`, which it keeps alive. The content stays. Throws ArrayError if
// the array does not fit.
Buffer allocate_in(const Memory& memory, std::vector<std::size_t> shape, ElementType type);

// Makes an array of this shape, not initialised. Throws ArrayError if the machine has less memory than it takes, and
// std::bad_alloc if the system refuses it.
Buffer allocate(std::vector<std::size_t> shape, ElementType type);

// Allocates memory for a Storage in the same way.
Memory allocate_pageable(std::size_t size);

}  // namespace spdl
