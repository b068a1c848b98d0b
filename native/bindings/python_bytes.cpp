#include "bindings/python_bytes.h"

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "bindings/modules.h"
#include "bindings/native_call.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {

PythonBytes::PythonBytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT) != 0) {
        throw nb::python_error();
    }
    const bool bytes = view_.itemsize == 1 && view_.ndim == 1;
    if (!bytes) {
        const std::string message = "the bytes of a file must be a one-dimensional array of single bytes, got " +
                                    std::to_string(view_.ndim) + " dimensions of " + std::to_string(view_.itemsize) +
                                    "-byte elements";
        PyBuffer_Release(&view_);
        throw nb::type_error(message.c_str());
    }
}

PythonBytes::PythonBytes(PythonBytes&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}

PythonBytes::~PythonBytes() {
    PyBuffer_Release(&view_);
}

std::shared_ptr<const PythonBytes> share_bytes(nb::handle object) {
    return {new PythonBytes(object), [](const PythonBytes* bytes) {
                const nb::gil_scoped_acquire acquired;
                delete bytes;
            }};
}

PythonPath::PythonPath(nb::str path) {
    Py_ssize_t size = 0;
    if (const char* const text = PyUnicode_AsUTF8AndSize(path.ptr(), &size)) {
        if (size == PyUnicode_GetLength(path.ptr())) {
            text_ = {text, static_cast<std::size_t>(size)};
            encoded_ = std::move(path);
            return;
        }
    } else {
        PyErr_Clear();  // It has surrogate escapes, which only the file system's encoding takes.
    }
    encoded_ = made_by_python(PyUnicode_EncodeFSDefault(path.ptr()));
    char* text = nullptr;
    if (PyBytes_AsStringAndSize(encoded_.ptr(), &text, &size) != 0) {
        throw nb::python_error();
    }
    text_ = {text, static_cast<std::size_t>(size)};
}

HeldBytes hold_bytes(nb::handle object) {
    if (PyBytes_CheckExact(object.ptr())) {
        return {nb::borrow(object), reinterpret_cast<std::uint8_t*>(PyBytes_AsString(object.ptr())),
                static_cast<std::size_t>(PyBytes_Size(object.ptr())), false};
    }
    // As long as this object lives, a bytearray cannot be resized, nor a file unmapped.
    nb::object view = made_by_python(PyMemoryView_FromObject(object.ptr()));
    Py_buffer buffer;
    if (PyObject_GetBuffer(view.ptr(), &buffer, PyBUF_C_CONTIGUOUS) != 0) {
        throw nb::python_error();
    }
    HeldBytes held{std::move(view), static_cast<std::uint8_t*>(buffer.buf), static_cast<std::size_t>(buffer.len),
                   buffer.readonly == 0};
    PyBuffer_Release(&buffer);
    return held;
}

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
    // The buffer is read-only, so it is never written to.
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
    module.def("map_file", &map_file, "path"_a);
    module.def(
        "describe_unfetched",
        [](const nb::bytes& begin) {
            return describe_unfetched({static_cast<const std::uint8_t*>(begin.data()), begin.size()});
        },
        "begin"_a);
}

}  // namespace spdl
