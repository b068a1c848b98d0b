#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Binds ImagePackets, ImageFrames, ImageCodec and the functions from one to the next.
void bind_images(nanobind::module_& module);

}  // namespace spdl
