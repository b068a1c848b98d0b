#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "media/backend.h"

namespace spdl {

// The report of loading the images of an array. It goes along when the array is copied to a device and back.
struct LoadReport {
    nanobind::object failures = nanobind::tuple();
    std::vector<const Backend*> backends;  // What decoded each image; empty if that is not known.
};

// A failure names its input, an object of the user's that may lead back to the array, so Python's garbage collector has
// to see it. T has a member `report`.
template <typename T>
int traverse_report(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nanobind::inst_ready(self)) {
        Py_VISIT(nanobind::inst_ptr<T>(self)->report.failures.ptr());
    }
    return 0;
}

template <typename T>
int clear_report(PyObject* self) {
    nanobind::inst_ptr<T>(self)->report.failures = nanobind::tuple();
    return 0;
}

template <typename T>
PyType_Slot* report_slots() {
    static PyType_Slot slots[] = {
        {Py_tp_traverse, reinterpret_cast<void*>(traverse_report<T>)},
        {Py_tp_clear, reinterpret_cast<void*>(clear_report<T>)},
        {0, nullptr},
    };
    return slots;
}

template <typename T>
void bind_report(nanobind::class_<T>& bound) {
    bound
        .def(
            "_set_failures", [](T& self, nanobind::tuple failures) { self.report.failures = std::move(failures); },
            nanobind::arg("failures"))
        .def_prop_ro(
            "failures", [](const T& self) { return self.report.failures; },
            "The images that load_image_batch could not load, or only in part, as a tuple of LoadFailure.")
        .def_prop_ro(
            "backends",
            [](const T& self) {
                nanobind::list names;
                for (const Backend* const backend : self.report.backends) {
                    names.append(backend_name(backend));
                }
                return nanobind::tuple(names);
            },
            "The backend of each image, \"libjpeg-turbo\" or \"ffmpeg\"; \"\" for an image that failed and was kept.\n"
            "Empty for a buffer that was pickled.");
}

}  // namespace spdl
