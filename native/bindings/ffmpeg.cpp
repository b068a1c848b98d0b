#include "bindings/ffmpeg.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ffmpeg/build_info.h"

namespace spdl {

void bind_ffmpeg(nanobind::module_& module) {
    module.def("ffmpeg_versions", &ffmpeg_versions);
    module.def("ffmpeg_license", &ffmpeg_license);
    module.def("ffmpeg_filters", &ffmpeg_filters);
}

}  // namespace spdl
