#include "bindings/log_delivery.h"

#include <nanobind/nanobind.h>

#include <new>
#include <string>

namespace nb = nanobind;

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
            // Comes again where it can be raised.
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

}  // namespace spdl
