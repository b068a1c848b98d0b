#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/storage.h"

namespace spdl {

enum class ElementType { kUint8, kUint16, kFloat16, kFloat32 };

constexpr std::size_t element_bytes(ElementType type) {
    return type == ElementType::kUint8 ? 1 : type == ElementType::kFloat32 ? 4 : 2;
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

// An array of this shape at the start of `memory`, which it keeps alive; what was there stays. Throws ArrayError where
// it does not fit.
Buffer allocate_in(const Memory& memory, std::vector<std::size_t> shape, ElementType type);

// An array of this shape, not initialised. Throws ArrayError where the machine has less memory than it takes, and
// std::bad_alloc where the system refuses it.
Buffer allocate(std::vector<std::size_t> shape, ElementType type);

// Likewise, for a Storage.
Memory allocate_pageable(std::size_t size);

}  // namespace spdl
