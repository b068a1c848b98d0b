#include "bindings/ffmpeg.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/log_delivery.h"
#include "ffmpeg/build_info.h"
#include "ffmpeg/log_lines.h"

namespace spdl {

void bind_ffmpeg(nanobind::module_& module) {
    module.def("ffmpeg_versions", &ffmpeg_versions);
    module.def("ffmpeg_license", &ffmpeg_license);
    module.def("ffmpeg_filters", &ffmpeg_filters);
    module.def("ffmpeg_log_level", &log_level);
    module.def("set_ffmpeg_log_level", &set_log_level, nanobind::arg("level"));
    module.def("deliver_ffmpeg_log", &deliver_log_lines);
}

}  // namespace spdl
