#include "bindings/arguments.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <utility>

#include "ffmpeg/decode.h"
#include "ffmpeg/demux.h"
#include "image/batch.h"

namespace nb = nanobind;

namespace spdl {
namespace {

void make_resize(Resize* self, int width, int height, std::string_view mode, std::string_view interpolation) {
    const auto fit = parse_fit(mode);
    const auto filter = parse_interpolation(interpolation);
    if (!fit || !filter) {
        throw nb::value_error("unknown mode or interpolation");
    }
    new (self) Resize{{width, height}, *fit, *filter};
}

}  // namespace

void bind_options(nb::module_& module) {
    nb::class_<Resize>(module, "Resize")
        .def("__init__", &make_resize, nb::arg("width"), nb::arg("height"), nb::arg("mode"), nb::arg("interpolation"));
    nb::class_<DemuxOptions>(module, "DemuxOptions")
        .def(
            "__init__",
            [](DemuxOptions* self, std::string format, OptionList options, int buffer_size, std::string bsf) {
                new (self) DemuxOptions{std::move(format), std::move(options), buffer_size, std::move(bsf)};
            },
            nb::arg("format_name"), nb::arg("format_options"), nb::arg("buffer_size"), nb::arg("bsf"));
    nb::class_<DecodeOptions>(module, "DecodeOptions")
        .def(
            "__init__",
            [](DecodeOptions* self, std::string decoder, OptionList options) {
                new (self) DecodeOptions{std::move(decoder), std::move(options)};
            },
            nb::arg("decoder"), nb::arg("decoder_options"));
}

}  // namespace spdl
