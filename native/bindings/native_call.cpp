#include "bindings/native_call.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__APPLE__)
#include <pthread.h>
#endif

#include "core/trace.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

nb::object decoded(const std::string& text) {
    return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

// Calls a function that writes to Python's logging, whose handlers may raise.
template <typename... Arguments>
void call(const char* function, const Arguments&... arguments) {
    try {
        nb::module_::import_("spdl.io._common.ffmpeg_log").attr(function)(arguments...);
    } catch (nb::python_error& error) {
        const bool interrupted = error.matches(PyExc_KeyboardInterrupt);
        error.discard_as_unraisable("spdl.io, which was handing FFmpeg's log to Python's logging");
        if (interrupted) {
            // Comes again when it can be raised.
            PyErr_SetInterrupt();
        }
    }
}

}  // namespace

void deliver_log_lines_now() noexcept {
    // An error may be on its way to the caller.
    const nb::error_scope others;
    try {
        const LogLines waiting = fetch_log_lines();
        for (const LogLine& line : waiting.lines) {
            call("write", line.level, decoded(line.text));
        }
        if (waiting.lost != 0) {
            call("write_lost", waiting.lost);
        }
    } catch (const std::bad_alloc&) {
        // The lines are lost.
        return;
    }
}

bool runs_signal_handlers() {
#ifdef __linux__
    // The child of a fork has one thread, which is its first. Python calls it the main thread, too.
    static thread_local pid_t process = 0;
    static thread_local bool first = false;
    if (const pid_t now = ::getpid(); now != process) {
        process = now;
        first = ::syscall(SYS_gettid) == now;
    }
    return first;
#elif defined(__APPLE__)
    return pthread_main_np() != 0;
#else
    return false;
#endif
}

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
    module.def("trace_start", &trace::start, "size"_a);
    module.def("trace_stop", &stop, "number"_a);
    module.def("trace_forget", &trace::forget);
    module.def("trace_begin", &begin, "name"_a);
    module.def("trace_begin_unnamed", &trace::begin, "name"_a);
    module.def("trace_end", &trace::end, "number"_a);
    module.def("trace_count", &trace::count, "counter"_a, "value"_a);
}

}  // namespace spdl
