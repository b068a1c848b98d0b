#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/native_call.h"
#include "bindings/python_bytes.h"
#include "core/errors.h"
#include "core/non_copyable.h"
#include "image/load/batch.h"
#include "image/load/one_image.h"
#include "media/decoder.h"
#include "media/packet.h"

namespace spdl {

struct Frames {
    static constexpr const char* kConsumed =
        "these ImageFrames were consumed by convert_frames or a FilterGraph: call clone() first to use them again";

    std::string name;
    DecodedImage image;

    [[nodiscard]] std::size_t bytes() const { return image.frame->bytes(); }
    void free() { image.frame.reset(); }
};

using FramesObject = Consumable<Frames>;

inline FramesObject wrap_frames(std::string name, DecodedImage image) {
    return FramesObject(Frames{std::move(name), std::move(image)});
}

// Runs `work`, the native part of the Python function `call`. Its errors say which image they are about.
template <typename Work>
auto run(const char* call, const std::string& name, Work&& work) {
    const NativeCall native(call);
    try {
        return work();
    } catch (const MediaError& error) {
        throw MediaError(name + ": " + error.what());
    }
}

// One encoded image, as Python holds it.
struct Packets {
    static constexpr const char* kConsumed =
        "these ImagePackets were consumed by decode_packets: call clone() before decoding to use them again";

    std::string name;
    std::shared_ptr<const Packet> image;
    std::shared_ptr<PythonBytes> source;  // Kept here, too, so that the image can be freed without the GIL.

    [[nodiscard]] std::size_t bytes() const { return image->bytes(); }
    void free() { image.reset(); }
};

using PacketsObject = Consumable<Packets>;

inline PacketsObject wrap_packets(std::string name, std::shared_ptr<const Packet> image,
                                  std::shared_ptr<PythonBytes> source) {
    return PacketsObject(Packets{std::move(name), std::move(image), std::move(source)});
}

// An array of ids as Python holds it. Created and destroyed with the GIL held.
class HeldIds : NonCopyable {
  public:
    // `type` is the name of the element type, in the machine's order.
    HeldIds(nanobind::handle array, ElementType type) {
        if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_STRIDED_RO) != 0) {
            throw nanobind::python_error();
        }
        constexpr int kSides = 2;
        constexpr Py_ssize_t kMost = std::numeric_limits<int>::max();
        if (view_.ndim != kSides || static_cast<std::size_t>(view_.itemsize) != element_bytes(type) ||
            view_.shape[0] > kMost || view_.shape[1] > kMost) {
            PyBuffer_Release(&view_);
            throw nanobind::value_error("an array of ids has two sides");
        }
        ids_ = {static_cast<const std::uint8_t*>(view_.buf),
                {static_cast<int>(view_.shape[1]), static_cast<int>(view_.shape[0])},
                {view_.strides[0], view_.strides[1]},
                type};
    }
    ~HeldIds() { PyBuffer_Release(&view_); }

    [[nodiscard]] const IdArray& get() const { return ids_; }

  private:
    Py_buffer view_{};
    IdArray ids_;
};

// Strings are paths, HeldIds arrays, everything else is encoded bytes.
struct Inputs {
    explicit Inputs(const nanobind::tuple& objects) {
        inputs.reserve(objects.size());
        paths.reserve(objects.size());
        bytes.reserve(objects.size());
        for (const nanobind::handle object : objects) {
            if (nanobind::isinstance<nanobind::str>(object)) {
                inputs.push_back({paths.emplace_back(nanobind::borrow<nanobind::str>(object)).get(), {}});
            } else if (nanobind::isinstance<HeldIds>(object)) {
                inputs.push_back({{}, {}, &nanobind::cast<const HeldIds&>(object).get()});
            } else {
                inputs.push_back({{}, bytes.emplace_back(object).get()});
            }
        }
    }

    std::vector<ImageInput> inputs;
    std::vector<PythonPath> paths;
    std::vector<PythonBytes> bytes;
};

// The index and the reason of each input that failed.
using Failures = std::vector<std::pair<std::size_t, std::string>>;

inline Failures take_failures(std::vector<Failure> failures) {
    Failures taken;
    for (Failure& failure : failures) {
        taken.emplace_back(failure.index, std::move(failure.reason));
    }
    return taken;
}

// Warns that pages of a TIFF were left out. Called with the GIL held.
void warn_of_pages();

using BoxSides = std::tuple<int, int, int, int>;

using MapNumbers = std::array<double, 6>;

// Python's Place: the bits of the turn, the box, its new size, where that lies on the canvas, the flip, and the moves.
using PlaceSides = std::tuple<int, BoxSides, std::pair<int, int>, std::pair<int, int>, bool, std::vector<MapNumbers>>;

inline std::vector<ImagePlace> make_places(const std::vector<PlaceSides>& sides, Size canvas) {
    std::vector<ImagePlace> places;
    places.reserve(sides.size());
    for (const auto& [turn, box, resized, offset, flip, moves] : sides) {
        const auto& [left, top, right, bottom] = box;
        const Placement placement{canvas, {resized.first, resized.second}, offset.first, offset.second};
        places.push_back(
            {{(turn & 1) != 0, (turn & 2) != 0, (turn & 4) != 0}, {{left, top, right, bottom}, flip, placement}});
        for (const auto& [xx, xy, dx, yx, yy, dy] : moves) {
            places.back().moves.push_back({xx, xy, dx, yx, yy, dy});
        }
    }
    return places;
}

inline CropsAndFlips make_crops(const std::vector<BoxSides>& boxes, const RandomCrop* random, std::vector<bool> flips,
                                const ColorJitter* jitter, const PixelAugment* augment = nullptr) {
    CropsAndFlips crops{{}, random, std::move(flips), jitter, augment, {}, {}};
    crops.boxes.reserve(boxes.size());
    for (const auto& [left, top, right, bottom] : boxes) {
        crops.boxes.push_back({left, top, right, bottom});
    }
    return crops;
}

}  // namespace spdl
