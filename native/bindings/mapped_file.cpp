#include "bindings/mapped_file.h"

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "bindings/gil.h"
#include "bindings/python_bytes.h"
#include "core/mapped_file.h"

namespace nb = nanobind;

namespace spdl {
namespace {

class HeldFile {
  public:
    explicit HeldFile(MappedFile file) : file_(std::move(file)) {}
    HeldFile(HeldFile&&) = default;
    HeldFile(const HeldFile&) = delete;
    HeldFile& operator=(const HeldFile&) = delete;
    HeldFile& operator=(HeldFile&&) = delete;
    ~HeldFile() {
        if (file_.get().size() >= kLargeBytes) {
            const ReleasedGil released;
            const MappedFile leaving(std::move(file_));
        }
    }

    [[nodiscard]] Bytes get() const { return file_.get(); }

  private:
    MappedFile file_;
};

HeldFile map_file(nb::str path) {
    const PythonPath held(path);
    if (held.get().find('\0') != std::string_view::npos) {
        throw nb::value_error("the path holds a null character");
    }
    try {
        const ReleasedGil released;
        return HeldFile(MappedFile(held.get().data()));
    } catch (const std::system_error& error) {
        errno = error.code().value();
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path.ptr());
        throw nb::python_error();
    }
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    static char nothing = 0;
    const Bytes bytes = nb::inst_ptr<HeldFile>(self)->get();
    // The buffer is read-only, so nobody writes to it.
    void* const data = bytes.empty() ? static_cast<void*>(&nothing) : const_cast<std::uint8_t*>(bytes.data());
    return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(bytes.size()), 1, flags);
}

}  // namespace

void bind_mapped_file(nb::module_& module) {
    static PyType_Slot slots[] = {
        {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
        {0, nullptr},
    };
    nb::class_<HeldFile>(module, "MappedFile", nb::type_slots(slots));
    module.def("map_file", &map_file, nb::arg("path"));
}

}  // namespace spdl
