#include "core/buffer.h"

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "core/media_error.h"

namespace spdl {
namespace {

// Linux promises more memory than it has. It is better to refuse a size that cannot fit than to be killed for it.
std::size_t physical_memory() {
    static const std::size_t bytes =
        static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
    return bytes;
}

std::string describe(const std::vector<std::size_t>& shape) {
    std::string text = "(";
    for (const std::size_t side : shape) {
        text += (text.size() > 1 ? ", " : "") + std::to_string(side);
    }
    return text + ")";
}

}  // namespace

Buffer allocate_in(const Memory& memory, std::vector<std::size_t> shape, ElementType type) {
    std::size_t bytes = element_bytes(type);
    for (const std::size_t side : shape) {
        if (__builtin_mul_overflow(bytes, side, &bytes)) {
            throw ArrayError("an array of shape " + describe(shape) + " fits into no memory: ask for fewer or smaller");
        }
    }
    Buffer buffer{memory.owner, memory.data, std::move(shape), type, memory.pinned};
    if (buffer.bytes() > memory.size) {
        throw ArrayError("the storage of " + std::to_string(memory.size) + " bytes is too small for the " +
                         std::to_string(buffer.bytes()) + " of an array of shape " + describe(buffer.shape) +
                         ": make one of at least " + std::to_string(buffer.bytes()) + " bytes");
    }
    if (reinterpret_cast<std::uintptr_t>(memory.data) % element_bytes(type) != 0) {
        throw ArrayError("the storage starts at an address that is no multiple of the " +
                         std::to_string(element_bytes(type)) + " bytes of an element: start it a few bytes further on");
    }
    return buffer;
}

Buffer allocate(std::vector<std::size_t> shape, ElementType type) {
    std::size_t bytes = element_bytes(type);
    for (const std::size_t side : shape) {
        if (__builtin_mul_overflow(bytes, side, &bytes) || bytes > physical_memory()) {
            throw ArrayError("an array of shape " + describe(shape) + " does not fit this machine's memory of " +
                             std::to_string(physical_memory()) + " bytes: ask for fewer or smaller ones");
        }
    }
    auto memory = std::make_shared<AlignedBuffer>(bytes);
    std::uint8_t* const data = memory->data();
    return {std::move(memory), data, std::move(shape), type};
}

Memory allocate_pageable(std::size_t size) {
    Buffer buffer = allocate({size}, ElementType::kUint8);
    return {std::move(buffer.owner), buffer.data, size};
}

}  // namespace spdl
