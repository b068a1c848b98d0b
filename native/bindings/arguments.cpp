#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/image_objects.h"
#include "bindings/modules.h"
#include "image/augment/draws.h"
#include "media/decoder.h"
#include "media/options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

template <typename Value>
Value checked(std::optional<Value> value, std::string_view what, std::string_view got) {
    if (!value) {
        throw nb::value_error(("there is no " + std::string(what) + " \"" + std::string(got) + "\"").c_str());
    }
    return *value;
}

// Images, and ids, have no other types.
std::optional<ElementType> parse_image_element(std::string_view name) {
    const std::optional<ElementType> type = parse_element(name);
    return type == ElementType::kInt16 || type == ElementType::kFloat64 ? std::nullopt : type;
}

// The pixel formats that are not FFmpeg's: ids instead of colours.
IdSource parse_ids(std::string_view pixel_format) {
    for (const auto& [known, ids] :
         {std::pair{"index", IdSource::kIndex}, {"gray16", IdSource::kGray16}, {"ids", IdSource::kAny}}) {
        if (pixel_format == known) {
            return ids;
        }
    }
    return IdSource::kNone;
}

// Null for "", which stands for any.
std::optional<const Backend*> parse_backend(std::string_view name) {
    const Backend* const backend = find_backend(name);
    return backend == nullptr && !name.empty() ? std::nullopt : std::optional(backend);
}

void make_load_options(LoadOptions* self, std::pair<int, int> target, std::string_view mode, std::pair<int, int> center,
                       std::string_view interpolation, std::string_view pixel_format, std::string_view layout,
                       std::string_view dtype, const PerChannel& scale, const PerChannel& offset, bool flip, bool exact,
                       bool upright, const PixelBytes& pad) {
    const IdSource ids = parse_ids(pixel_format);
    const ElementType type = checked(parse_image_element(dtype), "dtype", dtype);
    const Layout order = layout == "NCHW" ? Layout::kNchw : Layout::kNhwc;
    const ArrayFormat format =
        ids != IdSource::kNone
            ? ArrayFormat::of_ids(type)
            : ArrayFormat(checked(parse_channels(pixel_format), "pixel format of our own", pixel_format), order, type,
                          scale, offset);
    new (self) LoadOptions{{target.first, target.second},
                           checked(parse_fit(mode), "mode", mode),
                           {center.first, center.second},
                           checked(parse_interpolation(interpolation), "interpolation", interpolation),
                           flip,
                           exact,
                           upright,
                           format.padded(pad),
                           ids};
}

void bind_load_options(nb::module_& module) {
    nb::class_<LoadOptions>(module, "LoadOptions")
        .def("__init__", &make_load_options, nb::kw_only(), "target"_a, "mode"_a, "center"_a, "interpolation"_a,
             "pix_fmt"_a, "layout"_a, "dtype"_a, "scale"_a, "offset"_a, "flip"_a, "exact"_a, "upright"_a, "pad"_a);
}

void bind_random_crop(nb::module_& module) {
    nb::class_<RandomCrop>(module, "RandomCrop")
        .def(
            "__init__",
            [](RandomCrop* self, std::uint64_t seed, std::uint64_t epoch, std::pair<double, double> scale,
               std::pair<double, double> ratio, std::vector<std::uint64_t> indices) {
                new (self) RandomCrop{{seed, epoch}, scale, ratio, std::move(indices)};
            },
            nb::kw_only(), "seed"_a, "epoch"_a, "scale"_a, "ratio"_a, "indices"_a)
        .def(
            "draw",
            [](const RandomCrop& self, std::uint64_t index, int width, int height) {
                const Box box = self.draw(index, {width, height});
                return BoxSides{box.left, box.top, box.right, box.bottom};
            },
            "index"_a, "width"_a, "height"_a);
    module.def(
        "draw_flips",
        [](std::uint64_t seed, std::uint64_t epoch, const std::vector<std::uint64_t>& indices, double probability) {
            std::vector<bool> flips;
            for (const std::uint64_t index : indices) {
                flips.push_back(draw_flip({seed, epoch}, index, probability));
            }
            return flips;
        },
        nb::kw_only(), "seed"_a, "epoch"_a, "indices"_a, "probability"_a);
}

using Range = std::pair<double, double>;

// The names of the steps, in the order of JitterStep.
constexpr const char* kJitterNames[] = {"brightness", "contrast", "saturation", "hue"};

void bind_color_jitter(nb::module_& module) {
    nb::class_<ColorJitter>(module, "ColorJitter")
        .def(
            "__init__",
            [](ColorJitter* self, std::uint64_t seed, std::uint64_t epoch, Range brightness, Range contrast,
               Range saturation, Range hue, std::vector<std::uint64_t> indices) {
                new (self) ColorJitter{{seed, epoch}, {{brightness, contrast, saturation, hue}}, std::move(indices)};
            },
            nb::kw_only(), "seed"_a, "epoch"_a, "brightness"_a, "contrast"_a, "saturation"_a, "hue"_a, "indices"_a)
        .def(
            "draw",
            [](const ColorJitter& self, std::uint64_t index) {
                const Jitter jitter = self.draw(index);
                std::vector<std::pair<std::string, double>> steps;
                for (const JitterStep step : jitter.order) {
                    steps.emplace_back(kJitterNames[static_cast<std::size_t>(step)], jitter[step]);
                }
                return steps;
            },
            "index"_a);
}

}  // namespace

void bind_options(nb::module_& module) {
    bind_load_options(module);
    nb::class_<HeldIds>(module, "HeldIds")
        .def(
            "__init__",
            [](HeldIds* self, nb::handle array, std::string_view dtype) {
                new (self) HeldIds(array, checked(parse_image_element(dtype), "dtype", dtype));
            },
            "array"_a, "dtype"_a);
    bind_random_crop(module);
    bind_color_jitter(module);
    nb::class_<DemuxOptions>(module, "DemuxOptions")
        .def(
            "__init__",
            [](DemuxOptions* self, std::string format, OptionList options, int buffer_size, std::string bsf,
               bool for_ffmpeg) {
                new (self) DemuxOptions{std::move(format), std::move(options), buffer_size, std::move(bsf), for_ffmpeg};
            },
            "format_name"_a, "format_options"_a, "buffer_size"_a, "bsf"_a, "for_ffmpeg"_a);
    nb::class_<DecodeOptions>(module, "DecodeOptions")
        .def(
            "__init__",
            [](DecodeOptions* self, std::string decoder, OptionList options, std::int64_t max_pixels,
               std::string_view backend, bool keep_damaged) {
                new (self) DecodeOptions{std::move(decoder), std::move(options), max_pixels,
                                         checked(parse_backend(backend), "backend", backend), keep_damaged};
            },
            "decoder"_a, "decoder_options"_a, "max_pixels"_a, "backend"_a, "keep_damaged"_a);
}

void set_format_error(const FormatError& error) {
    const nb::object type = nb::module_::import_("spdl.io._common.errors").attr("FormatError");
    // Names out of archives need not be UTF-8.
    const std::string_view text = error.what();
    const nb::object message = nb::steal(PyUnicode_DecodeUTF8(text.data(), std::ssize(text), "backslashreplace"));
    PyErr_SetObject(type.ptr(), message.ptr());
}

}  // namespace spdl
