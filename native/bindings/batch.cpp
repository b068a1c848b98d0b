#include "bindings/batch.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/buffer.h"
#include "bindings/gil.h"
#include "bindings/python_bytes.h"
#include "image/batch.h"

namespace nb = nanobind;

namespace spdl {
namespace {

// Strings are paths, everything else is encoded bytes.
struct Sources {
    explicit Sources(const nb::tuple& objects) {
        sources.reserve(objects.size());
        for (const nb::handle object : objects) {
            if (nb::isinstance<nb::str>(object)) {
                sources.push_back({paths.emplace_back(nb::borrow<nb::str>(object)).get(), {}});
            } else {
                sources.push_back({{}, bytes.emplace_back(object).get()});
            }
        }
    }

    std::vector<Source> sources;
    std::deque<PythonPath> paths;
    std::deque<PythonBytes> bytes;
};

using Failures = std::vector<std::pair<std::size_t, std::string>>;

std::pair<std::optional<CpuBuffer>, Failures> load(const nb::tuple& objects, const Resize& resize,
                                                   CpuStorage* storage) {
    const Sources sources(objects);
    const std::optional<Memory> memory = take_memory(storage);
    Batch batch;
    {
        const ReleasedGil released;
        batch = load_batch(sources.sources, resize, memory ? &*memory : nullptr);
    }
    Failures failures;
    for (Failure& failure : batch.failures) {
        failures.emplace_back(failure.index, std::move(failure.reason));
    }
    std::optional<CpuBuffer> buffer;
    if (batch.images.data != nullptr) {
        buffer.emplace(std::move(batch.images));
    }
    return {std::move(buffer), std::move(failures)};
}

}  // namespace

void bind_batch(nb::module_& module) {
    module.def("load_batch", &load, nb::arg("sources"), nb::arg("resize"), nb::arg("storage").none());
}

}  // namespace spdl
