#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file_reader.h"
#include "image/buffer.h"
#include "image/geometry.h"
#include "image/interpolation.h"

namespace spdl {

// Where an encoded image is: in the file at `path`, as FileReader takes it, or where that has no data, in memory.
struct Source {
    std::string_view path;
    Bytes bytes;
};

// How images come to one size; a side of 0 is left open, as in place().
struct Resize {
    Size target;
    Fit fit = Fit::kPad;
    Interpolation interpolation = Interpolation::kBicubic;
};

struct Failure {
    std::size_t index;
    std::string reason;
};

struct Batch {
    Buffer images;  // (loaded, height, width, 3); no memory where nothing could be loaded.
    std::vector<Failure> failures;
};

// Reads, decodes and resizes every source into its row of one batch. Those that fail are left out, the order of the
// others is kept. Where there is a storage, the batch is made in it. Throws ArrayError where there is no room for the
// batch: before anything is read, where `resize` gives both sides.
Batch load_batch(std::span<const Source> sources, const Resize& resize, const Memory* memory);

}  // namespace spdl
