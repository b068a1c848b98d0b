#pragma once

#include <memory>

#include "media/backend.h"
#include "media/frame.h"

namespace spdl {

// A decoded image, and what decoded it.
struct DecodedImage {
    std::unique_ptr<Frame> frame;
    const Backend* backend = nullptr;
};

}  // namespace spdl
