#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/buffer.h"
#include "bindings/image_objects.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "bindings/python_bytes.h"
#include "core/buffer.h"
#include "image/augment/draws.h"
#include "image/augment/pixel_steps.h"
#include "image/load/batch.h"
#include "media/options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

using Range = std::pair<double, double>;

// The names of the steps, in the order of PixelOp.
constexpr const char* kStepNames[] = {"identity",  "shear_x",    "shear_y",      "translate_x", "translate_y",
                                      "rotate",    "brightness", "saturation",   "contrast",    "sharpness",
                                      "posterize", "solarize",   "autocontrast", "equalize",    "hue",
                                      "grayscale", "blur"};

Policy parse_policy(std::string_view name) {
    return name == "rand" ? Policy::kRandAugment : name == "trivial" ? Policy::kTrivialAugment : Policy::kNone;
}

std::vector<PixelStep> draw(const PixelAugment& augment, std::uint64_t index, Size size) {
    std::vector<PixelStep> steps;
    augment.draw(index, size, steps);
    return steps;
}

void bind_pixel_augment(nb::module_& module) {
    nb::class_<PixelAugment>(module, "PixelAugment")
        .def(
            "__init__",
            [](PixelAugment* self, std::uint64_t seed, std::uint64_t epoch, std::vector<std::uint64_t> indices,
               std::string_view policy, int num_ops, int magnitude, int bins, double jitter, Range brightness,
               Range contrast, Range saturation, Range hue, double grayscale, double blur, Range blur_sigma,
               int blur_kernel, double solarize, double solarize_threshold, double posterize, int posterize_bits,
               double equalize, double autocontrast, double sharpness, double sharpness_factor) {
                const DrawKey key{seed, epoch};
                new (self) PixelAugment{key,
                                        std::move(indices),
                                        {parse_policy(policy), num_ops, magnitude, bins},
                                        jitter,
                                        {key, {{brightness, contrast, saturation, hue}}, {}},
                                        grayscale,
                                        blur,
                                        blur_sigma,
                                        blur_kernel,
                                        solarize,
                                        solarize_threshold,
                                        posterize,
                                        posterize_bits,
                                        equalize,
                                        autocontrast,
                                        sharpness,
                                        sharpness_factor};
            },
            nb::kw_only(), "seed"_a, "epoch"_a, "indices"_a, "policy"_a, "num_ops"_a, "magnitude"_a, "bins"_a,
            "jitter"_a, "brightness"_a, "contrast"_a, "saturation"_a, "hue"_a, "grayscale"_a, "blur"_a, "blur_sigma"_a,
            "blur_kernel"_a, "solarize"_a, "solarize_threshold"_a, "posterize"_a, "posterize_bits"_a, "equalize"_a,
            "autocontrast"_a, "sharpness"_a, "sharpness_factor"_a)
        .def(
            "draw",
            [](const PixelAugment& self, std::uint64_t index, int width, int height) {
                std::vector<std::pair<std::string, double>> steps;
                for (const PixelStep& step : draw(self, index, {width, height})) {
                    steps.emplace_back(kStepNames[static_cast<std::size_t>(step.op)], step.value);
                }
                return steps;
            },
            "index"_a, "width"_a, "height"_a)
        .def(
            "moves",
            [](const PixelAugment& self, std::uint64_t index, int width, int height) {
                std::vector<MapNumbers> moves;
                for (const PixelStep& step : draw(self, index, {width, height})) {
                    if (const auto map = map_of(step, {width, height})) {
                        moves.push_back({map->xx, map->xy, map->dx, map->yx, map->yy, map->dy});
                    }
                }
                return moves;
            },
            "index"_a, "width"_a, "height"_a);
}

void bind_random_erase(nb::module_& module) {
    nb::class_<RandomErase>(module, "RandomErase")
        .def(
            "__init__",
            [](RandomErase* self, std::uint64_t seed, std::uint64_t epoch, std::vector<std::uint64_t> indices,
               double probability, Range scale,
               Range ratio) { new (self) RandomErase{{seed, epoch}, probability, scale, ratio, std::move(indices)}; },
            nb::kw_only(), "seed"_a, "epoch"_a, "indices"_a, "probability"_a, "scale"_a, "ratio"_a)
        .def(
            "erase",
            [](const RandomErase& self, const nb::object& images, std::pair<int, int> size, bool planes,
               std::size_t channels, const nb::handle values) {
                const PythonBytes cells(values);
                const std::optional<Memory> memory = take_memory(images);
                const Size sides{size.first, size.second};
                const std::size_t bytes = rgb_bytes(sides) / 3 * cells.get().size() * self.indices.size();
                if (!memory || memory->size != bytes) {
                    throw nb::value_error("the images do not fit the indices");
                }
                const NativeCall native("erase");
                erase(self, {sides, channels, planes}, cells.get(), memory->data);
            },
            nb::kw_only(), "images"_a, "size"_a, "planes"_a, "channels"_a, "values"_a);
}

// A view as Python passes it.
struct ViewArguments {
    LoadOptions options;
    std::vector<BoxSides> boxes;
    std::optional<RandomCrop> random;
    std::vector<bool> flips;
    std::vector<PlaceSides> places;
    std::optional<PixelAugment> augment;

    [[nodiscard]] CropsAndFlips changes() const {
        CropsAndFlips crops =
            make_crops(boxes, random ? &*random : nullptr, flips, nullptr, augment ? &*augment : nullptr);
        crops.places = make_places(places, options.target);
        return crops;
    }
};

// The views of a group have one size and format, and one array: (views, images, ...).
std::pair<std::vector<CpuBuffer>, Failures> load_groups(const nb::tuple& sources,
                                                        const std::vector<std::vector<const ViewArguments*>>& groups,
                                                        const std::vector<std::pair<int, int>>& sizes,
                                                        const DemuxOptions& demux, const DecodeOptions& decode,
                                                        int num_threads, std::optional<int> page) {
    const Inputs inputs(sources);
    std::vector<Size> expected;
    for (const auto& [width, height] : sizes) {
        expected.push_back({width, height});
    }
    std::vector<Buffer> arrays;
    std::vector<View> views;
    for (const std::vector<const ViewArguments*>& group : groups) {
        const LoadOptions& options = group.at(0)->options;
        std::vector<std::size_t> shape = options.format.shape(inputs.inputs.size(), options.target);
        shape.insert(shape.begin(), group.size());
        const Buffer& array = arrays.emplace_back(allocate(std::move(shape), options.format.type()));
        for (std::size_t i = 0; i < group.size(); ++i) {
            View& view = views.emplace_back(&group[i]->options, group[i]->changes(),
                                            array.data + i * (array.bytes() / group.size()));
            view.changes.sizes = expected;
        }
    }
    LoadedViews loaded;
    {
        const NativeCall native("load_image_views");
        loaded = load_views(inputs.inputs, views, {demux, decode, num_threads, true, page});
    }
    if (loaded.dropped_pages) {
        warn_of_pages();
    }
    std::vector<CpuBuffer> buffers;
    for (Buffer& array : arrays) {
        buffers.emplace_back(std::move(array));
    }
    return {std::move(buffers), take_failures(std::move(loaded.failures))};
}

void bind_views(nb::module_& module) {
    nb::class_<ViewArguments>(module, "View")
        .def(
            "__init__",
            [](ViewArguments* self, const LoadOptions& options, std::vector<BoxSides> boxes, const RandomCrop* random,
               std::vector<bool> flips, std::vector<PlaceSides> places, const PixelAugment* augment) {
                new (self) ViewArguments{
                    options,          std::move(boxes),  random == nullptr ? std::nullopt : std::optional(*random),
                    std::move(flips), std::move(places), augment == nullptr ? std::nullopt : std::optional(*augment)};
            },
            nb::kw_only(), "request"_a, "boxes"_a, "random"_a.none(), "flips"_a, "places"_a = std::vector<PlaceSides>(),
            "augment"_a.none());
    module.def("load_views", &load_groups, nb::kw_only(), "sources"_a, "groups"_a,
               "sizes"_a = std::vector<std::pair<int, int>>(), "demux"_a, "decode"_a, "num_threads"_a, "page"_a.none());
}

}  // namespace

void bind_augment(nb::module_& module) {
    bind_pixel_augment(module);
    bind_random_erase(module);
    bind_views(module);
}

}  // namespace spdl
