#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "core/bytes.h"

namespace spdl {

// The header of a .npy file, in NumPy's format, versions 1 to 3.
struct NpyHeader {
    // NumPy 2 has as many.
    static constexpr std::size_t kMaxDims = 64;

    // The element type as NumPy spells it: "<f4". For structured types it is the whole list of fields, a Python literal
    // whose brackets and quotes match.
    std::string_view descr;
    bool structured = false;
    // The names of fields are in Latin-1 before version 3, and in UTF-8 from then on.
    bool utf8 = false;
    bool fortran_order = false;
    std::size_t dims = 0;
    // Not initialised beyond `dims`: the header is read for every array.
    std::array<std::size_t, kMaxDims> sides;
    std::size_t elements = 1;
    // The start of the elements.
    std::size_t offset = 0;

    [[nodiscard]] std::span<const std::size_t> shape() const { return {sides.data(), dims}; }
};

// Reads the header at the beginning of `data`; the views in it are of `data`. Throws FormatError.
NpyHeader parse_npy_header(Bytes data);

}  // namespace spdl
