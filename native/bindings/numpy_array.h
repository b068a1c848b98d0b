#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "arrays/arrays.h"
#include "core/buffer.h"

namespace spdl {

// The parts of NumPy's C interface that this module needs. All of them need the GIL. Python errors come as
// nanobind::python_error.

// Returns the element type, found or made. Throws FormatError for a type that holds Python objects or that NumPy does
// not know.
nanobind::object numpy_dtype(const NpyHeader& header);

// Returns a type that has a number, such as NPY_INT16, by NumPy's letter for the kind and its size in bytes.
nanobind::object numpy_dtype(char kind, std::size_t size);

// Returns how many bytes the elements take. Throws FormatError if no memory could hold them.
std::size_t payload_bytes(const NpyHeader& header, nanobind::handle dtype);

// Memory that arrays show: `owner` keeps it alive.
struct Shown {
    std::uint8_t* data;
    bool writable;
    nanobind::handle owner;
};

// Makes an array over memory of at least payload_bytes().
nanobind::object show_array(const NpyHeader& header, nanobind::handle dtype, const Shown& memory);

// Makes an array in C order, of any element type.
nanobind::object show_array(std::span<const std::size_t> shape, nanobind::handle dtype, const Shown& memory);

// Makes a one-dimensional array of bytes.
nanobind::object show_bytes(AlignedBuffer bytes);

// Makes one array of several with this header, one after the other. It has one side more, the first.
nanobind::object show_stack(const NpyHeader& header, std::size_t count, nanobind::handle dtype, const Shown& memory);

// Makes an array with its own memory and the content of another one.
nanobind::object copied(nanobind::handle array);

}  // namespace spdl
