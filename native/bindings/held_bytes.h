#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// The bytes of a Python object, in place, as long as `owner` lives. An array that shows them keeps the owner.
struct HeldBytes {
    nanobind::object owner;
    std::uint8_t* data = nullptr;
    std::size_t size = 0;
    bool writable = false;

    [[nodiscard]] Bytes get() const { return {data, size}; }
};

// Takes an object with the buffer protocol that holds contiguous bytes; raises TypeError or BufferError for anything
// else.
HeldBytes hold_bytes(nanobind::handle object);

}  // namespace spdl
