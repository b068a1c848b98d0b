#pragma once

#include <span>

#include "core/file_boxes.h"

namespace spdl {

// Throws MediaError if what a file says about its items cannot be so: damage is found there before it shows.
void check_properties(std::span<const FileBox> properties);

}  // namespace spdl
