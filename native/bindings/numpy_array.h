#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "arrays/npy_header.h"

namespace spdl {

// NumPy's C interface, behind what this module needs of it. All with the GIL held; Python errors come as
// nanobind::python_error.

// The element type, found or made. Throws FormatError for one that holds Python objects or that NumPy does not know.
nanobind::object numpy_dtype(const NpyHeader& header);

// One of those that have a number, such as NPY_INT16: by NumPy's letter for the kind and its size in bytes.
nanobind::object numpy_dtype(char kind, std::size_t size);

std::size_t dtype_bytes(nanobind::handle dtype);

// How many bytes the elements take. Throws FormatError where that is more than any memory could hold.
std::size_t payload_bytes(const NpyHeader& header, nanobind::handle dtype);

// Memory that arrays show: `owner` keeps it alive.
struct Shown {
    std::uint8_t* data;
    bool writable;
    nanobind::handle owner;
};

// An array over memory of at least payload_bytes().
nanobind::object show_array(const NpyHeader& header, nanobind::handle dtype, const Shown& memory);

// The same in C order, whatever it is of.
nanobind::object show_array(std::span<const std::size_t> shape, nanobind::handle dtype, const Shown& memory);

// Several arrays of a header's, one behind the other: they have one side more, the first.
nanobind::object show_stack(const NpyHeader& header, std::size_t count, nanobind::handle dtype, const Shown& memory);

// An array of its own memory with the content of another.
nanobind::object copied(nanobind::handle array);

}  // namespace spdl
