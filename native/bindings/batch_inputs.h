#pragma once

#include <nanobind/nanobind.h>

#include <tuple>
#include <utility>
#include <vector>

#include "bindings/python_bytes.h"
#include "image/load/batch.h"

namespace spdl {

// Strings are paths, everything else is encoded bytes.
struct Inputs {
    explicit Inputs(const nanobind::tuple& objects) {
        inputs.reserve(objects.size());
        paths.reserve(objects.size());
        bytes.reserve(objects.size());
        for (const nanobind::handle object : objects) {
            if (nanobind::isinstance<nanobind::str>(object)) {
                inputs.push_back({paths.emplace_back(nanobind::borrow<nanobind::str>(object)).get(), {}});
            } else {
                inputs.push_back({{}, bytes.emplace_back(object).get()});
            }
        }
    }

    std::vector<ImageInput> inputs;
    std::vector<PythonPath> paths;
    std::vector<PythonBytes> bytes;
};

using BoxSides = std::tuple<int, int, int, int>;

inline CropsAndFlips make_crops(const std::vector<BoxSides>& boxes, const RandomCrop* random, std::vector<bool> flips,
                                const ColorJitter* jitter) {
    CropsAndFlips crops{{}, random, std::move(flips), jitter};
    crops.boxes.reserve(boxes.size());
    for (const auto& [left, top, right, bottom] : boxes) {
        crops.boxes.push_back({left, top, right, bottom});
    }
    return crops;
}

}  // namespace spdl
