#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "image/load/batch.h"
#include "media/options.h"

namespace spdl {

// One picture of each image of a batch. Its options give both sides.
struct View {
    const LoadOptions* options;
    CropsAndFlips changes;
    std::uint8_t* to = nullptr;  // Where the pictures of all images go, one after the other.
};

struct LoadedViews {
    std::vector<Failure> failures;
    bool dropped_pages = false;  // As in Batch.
};

// Reads and decodes every input once, and writes all views of it. Those of an image that fails are zeros.
LoadedViews load_views(std::span<const ImageInput> inputs, std::span<const View> views, const BatchOptions& batch);

}  // namespace spdl
