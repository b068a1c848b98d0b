#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "core/file_reader.h"
#include "core/geometry.h"
#include "image/plan/random_crop.h"
#include "media/decode_options.h"
#include "media/demux_options.h"
#include "media/load_options.h"

namespace spdl {

// Where an encoded image is: in the file at `path`, as FileReader takes it, or where that has no data, in memory.
struct Source {
    std::string_view path;
    Bytes bytes;
};

// What is wanted of each image, besides what is wanted of all.
struct Views {
    std::vector<Box> boxes;              // One for each image, or none: whole images.
    const RandomCrop* random = nullptr;  // In their place.
    std::vector<bool> flips;             // One for each image, or none.
};

// How the work is done.
struct Reading {
    DemuxOptions demux;
    DecodeOptions decode;
    int num_threads = 1;
    bool keep_failed = false;  // Images that fail become zeros instead of being left out.
};

struct Failure {
    std::size_t index;
    std::string reason;
};

struct Batch {
    Buffer images;  // No memory where nothing could be loaded.
    std::vector<Failure> failures;
    std::vector<Backend> backends;  // What decoded each image of the batch; kAny for one that failed and was kept.
};

// Reads, decodes and resizes every source into its row of one batch, in the order of the sources. Where there is a
// memory, the batch is made in it. Throws ArrayError where there is no room for the batch: before anything is read,
// where `request` gives both sides.
Batch load_batch(std::span<const Source> sources, const Request& request, const Views& views, const Reading& reading,
                 const Memory* memory);

}  // namespace spdl
