#include "bindings/trace.h"

#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/trace.h"

namespace nb = nanobind;

namespace spdl {
namespace {

template <typename Content>
nb::bytes as_bytes(const Content& content) {
    return nb::bytes(content.data(), content.size());
}

nb::object stop(std::uint64_t number) {
    const std::optional<trace::Recorded> recorded = trace::stop(number);
    if (!recorded) {
        return nb::none();
    }
    nb::list threads;
    for (const trace::Thread& thread : recorded->threads) {
        threads.append(nb::make_tuple(thread.row, thread.id, as_bytes(thread.name)));
    }
    return nb::make_tuple(threads, as_bytes(recorded->older), as_bytes(recorded->newer), recorded->lost);
}

std::uint64_t begin(std::string_view name) {
    name_this_thread();
    return trace::begin(name);
}

}  // namespace

void name_this_thread() noexcept {
    if (trace::thread_is_named()) {
        return;
    }
    try {
        const nb::object thread = nb::module_::import_("threading").attr("current_thread")();
        trace::name_thread(nb::cast<std::string_view>(thread.attr("name")));
    } catch (nb::python_error& error) {
        error.discard_as_unraisable("spdl.io, which was asking for the name of a thread");
    } catch (const nb::cast_error&) {
        // No text: the system's name has to do.
        return;
    }
}

void bind_trace(nb::module_& module) {
    module.def("trace_start", &trace::start, nb::arg("size"));
    module.def("trace_stop", &stop, nb::arg("number"));
    module.def("trace_forget", &trace::forget);
    module.def("trace_begin", &begin, nb::arg("name"));
    module.def("trace_begin_unnamed", &trace::begin, nb::arg("name"));
    module.def("trace_end", &trace::end, nb::arg("number"));
    module.def("trace_count", &trace::count, nb::arg("counter"), nb::arg("value"));
}

}  // namespace spdl
