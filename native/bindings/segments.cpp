#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/buffer.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "core/buffer.h"
#include "core/geometry.h"
#include "image/segments/coco_masks.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

// A text of runs, a list of them, or a list of polygons.
Segmentation take(nb::handle object) {
    if (nb::isinstance<nb::bytes>(object)) {
        const auto text = nb::borrow<nb::bytes>(object);
        return {{}, read_coco_runs({static_cast<const std::uint8_t*>(text.data()), text.size()})};
    }
    const auto list = nb::cast<nb::list>(object);
    if (list.size() > 0 && nb::isinstance<nb::list>(list[0])) {
        return {nb::cast<std::vector<std::vector<double>>>(list), {}};
    }
    return {{}, nb::cast<std::vector<std::int64_t>>(list)};
}

// Paints into one picture, or each into its own.
template <typename Value>
void paint(const nb::list& objects, Size size, const std::vector<unsigned>& values, std::size_t step, Value* to) {
    SegmentPainter painter(size);
    std::size_t index = 0;
    try {
        for (; index < objects.size(); ++index, to += step) {
            const Segmentation segmentation = take(objects[index]);
            const NativeCall call("coco_masks");
            painter.paint(segmentation, static_cast<Value>(values[index]), to);
        }
    } catch (const std::invalid_argument& error) {
        throw nb::value_error(("segmentations[" + std::to_string(index) + "]: " + error.what()).c_str());
    }
}

void paint_all(const nb::list& segmentations, std::pair<int, int> size, const std::vector<unsigned>& values,
               bool together, bool wide, const nb::object& masks) {
    const Size sides{size.first, size.second};
    const std::optional<Memory> memory = take_memory(masks);
    const std::size_t pixels = static_cast<std::size_t>(sides.width) * static_cast<std::size_t>(sides.height);
    const std::size_t pictures = together ? 1 : segmentations.size();
    if (sides.width < 1 || sides.height < 1 || values.size() != segmentations.size() || !memory ||
        memory->size != pictures * pixels * (wide ? 2 : 1)) {
        throw nb::value_error("the memory does not fit the sizes");
    }
    const std::size_t step = together ? 0 : pixels;
    if (wide) {
        paint(segmentations, sides, values, step, reinterpret_cast<std::uint16_t*>(memory->data));
    } else {
        paint(segmentations, sides, values, step, memory->data);
    }
}

}  // namespace

void bind_segments(nb::module_& module) {
    module.def("coco_masks", &paint_all, nb::kw_only(), "segmentations"_a, "size"_a, "values"_a, "together"_a, "wide"_a,
               "masks"_a);
}

}  // namespace spdl
