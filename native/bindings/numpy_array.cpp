#include "bindings/numpy_array.h"

// For NumPy's headers, which serve NumPy 1.26 and later at run time.
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_23_API_VERSION
#include <numpy/arrayobject.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "bindings/native_call.h"
#include "core/errors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

static_assert(sizeof(npy_intp) == sizeof(std::size_t));

// The most types kept that were made from their descriptions. A data set usually has few.
constexpr std::size_t kKeptTypes = 256;

// Types with unusually many fields are not kept: a header has room for a hundred thousand.
constexpr std::size_t kKeptLength = 4096;

// Loads NumPy when the first array is made. Images do not need it.
void require_numpy() {
    static std::atomic<bool> ready = false;
    static nb::ft_mutex mutex;
    if (!ready.load(std::memory_order_acquire)) {
        const nb::ft_lock_guard lock(mutex);
        if (_import_array() < 0) {
            throw nb::python_error();
        }
        ready.store(true, std::memory_order_release);
    }
}

int type_number(char kind, std::size_t size) {
    switch (kind) {
        case 'b':
            return size == 1 ? NPY_BOOL : -1;
        case 'u':
            return size == 1   ? NPY_UINT8
                   : size == 2 ? NPY_UINT16
                   : size == 4 ? NPY_UINT32
                   : size == 8 ? NPY_UINT64
                               : -1;
        case 'i':
            return size == 1 ? NPY_INT8 : size == 2 ? NPY_INT16 : size == 4 ? NPY_INT32 : size == 8 ? NPY_INT64 : -1;
        case 'f':
            return size == 2 ? NPY_FLOAT16 : size == 4 ? NPY_FLOAT32 : size == 8 ? NPY_FLOAT64 : -1;
        case 'c':
            return size == 8 ? NPY_COMPLEX64 : size == 16 ? NPY_COMPLEX128 : -1;
        default:
            return -1;
    }
}

// Returns NumPy's number for the usual descriptions, numbers in this machine's order; -1 for all others.
int type_number(std::string_view descr) {
    if (descr.size() < 3 || descr.size() > 4) {
        return -1;
    }
    const bool native =
        descr[0] == '|' || descr[0] == '=' || descr[0] == (NPY_BYTE_ORDER == NPY_LITTLE_ENDIAN ? '<' : '>');
    std::size_t size = 0;
    for (const char digit : descr.substr(2)) {
        if (digit < '0' || digit > '9') {
            return -1;
        }
        size = 10 * size + static_cast<std::size_t>(digit - '0');
    }
    return native || size == 1 ? type_number(descr[1], size) : -1;
}

nb::object numbered(int number) {
    return nb::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(number)));
}

// Has NumPy itself make the type. Errors of NumPy, or of our check of the text, become FormatErrors.
nb::object made(const NpyHeader& header) {
    const nb::object module = nb::module_::import_("spdl.io._array.npy");
    const std::string_view text = header.descr;
    nb::object decoded = made_by_python(header.utf8 ? PyUnicode_DecodeUTF8(text.data(), std::ssize(text), "replace")
                                                    : PyUnicode_DecodeLatin1(text.data(), std::ssize(text), nullptr));
    try {
        return module.attr(header.structured ? "structured_dtype" : "plain_dtype")(decoded);
    } catch (nb::python_error& error) {
        if (!error.matches(PyExc_ValueError)) {
            throw;
        }
        // As our own exception, so that a caller can add the member's name.
        throw FormatError(nb::str(error.value()).c_str());
    }
}

class Types {
  public:
    nb::object get(const NpyHeader& header) {
        if (header.descr.size() > kKeptLength) {
            return made(header);
        }
        std::string key(header.descr);
        key += header.utf8 ? '8' : '1';
        {
            const std::scoped_lock lock(mutex_);
            if (const auto found = types_.find(key); found != types_.end()) {
                return found->second;
            }
        }
        // This runs Python code, so it does not hold the lock.
        nb::object type = made(header);
        std::unordered_map<std::string, nb::object> dropped;
        const std::scoped_lock lock(mutex_);
        if (types_.size() >= kKeptTypes) {
            dropped.swap(types_);
        }
        types_.emplace(std::move(key), type);
        return type;
    }

  private:
    std::mutex mutex_;
    std::unordered_map<std::string, nb::object> types_;
};

// Never destroyed: when the process ends, the interpreter is gone, so objects cannot be dropped.
Types& types() {
    static Types* const instance = new Types;
    return *instance;
}

PyArray_Descr* as_descr(nb::handle dtype) {
    return reinterpret_cast<PyArray_Descr*>(dtype.ptr());
}

// NumPy's errors about an array become FormatErrors.
[[noreturn]] void refuse(const nb::python_error& error) {
    if (!error.matches(PyExc_ValueError)) {
        throw error;
    }
    throw FormatError("the npy header gives an array that numpy refuses: " +
                      std::string(nb::str(error.value()).c_str()));
}

// Makes an array whose elements have no bytes, so there is nothing to show. Only NumPy's own constructor leaves strings
// their length of 0: its C interface makes that 1, and the array then holds old memory.
nb::object show_nothing(std::span<const std::size_t> shape, nb::handle dtype, bool fortran_order) {
    nb::list sides;
    for (const std::size_t side : shape) {
        sides.append(side);
    }
    try {
        return nb::handle(reinterpret_cast<PyObject*>(&PyArray_Type))(nb::tuple(sides), dtype,
                                                                      "order"_a = fortran_order ? "F" : "C");
    } catch (nb::python_error& error) {
        refuse(error);
    }
}

nb::object show(std::span<const std::size_t> shape, const npy_intp* strides, nb::handle dtype, const Shown& memory,
                bool fortran_order) {
    if (PyDataType_ELSIZE(as_descr(dtype)) == 0) {
        return show_nothing(shape, dtype, fortran_order);
    }
    std::array<npy_intp, NpyHeader::kMaxDims + 1> sides;
    for (std::size_t index = 0; index < shape.size(); ++index) {
        sides[index] = static_cast<npy_intp>(shape[index]);
    }
    const int flags = (memory.writable ? NPY_ARRAY_WRITEABLE : 0) | (fortran_order ? NPY_ARRAY_F_CONTIGUOUS : 0);
    dtype.inc_ref();
    nb::object array = nb::steal(PyArray_NewFromDescr(&PyArray_Type, as_descr(dtype), static_cast<int>(shape.size()),
                                                      sides.data(), strides, memory.data, flags, nullptr));
    if (!array.is_valid()) {
        refuse(nb::python_error());
    }
    memory.owner.inc_ref();
    if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.ptr()), memory.owner.ptr()) < 0) {
        throw nb::python_error();
    }
    return array;
}

std::size_t dtype_bytes(nb::handle dtype) {
    return static_cast<std::size_t>(PyDataType_ELSIZE(as_descr(dtype)));
}

}  // namespace

nb::object numpy_dtype(const NpyHeader& header) {
    require_numpy();
    if (const int number = header.structured ? -1 : type_number(header.descr); number >= 0) {
        return numbered(number);
    }
    return types().get(header);
}

nb::object numpy_dtype(char kind, std::size_t size) {
    require_numpy();
    return numbered(type_number(kind, size));
}

std::size_t payload_bytes(const NpyHeader& header, nb::handle dtype) {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(header.elements, dtype_bytes(dtype), &bytes) ||
        bytes > static_cast<std::size_t>(PTRDIFF_MAX)) {
        throw FormatError("the npy header gives " + std::to_string(header.elements) + " elements of " +
                          std::to_string(dtype_bytes(dtype)) + " bytes, more than any memory could hold");
    }
    return bytes;
}

nb::object show_array(const NpyHeader& header, nb::handle dtype, const Shown& memory) {
    return show(header.shape(), nullptr, dtype, memory, header.fortran_order);
}

nb::object show_array(std::span<const std::size_t> shape, nb::handle dtype, const Shown& memory) {
    return show(shape, nullptr, dtype, memory, false);
}

nb::object show_bytes(AlignedBuffer bytes) {
    auto memory = std::make_unique<AlignedBuffer>(std::move(bytes));
    std::uint8_t* const data = memory->data();
    const std::size_t size[] = {memory->size()};
    const nb::object owner = own_memory(std::move(memory));
    return show_array(size, numpy_dtype('u', 1), {data, true, owner});
}

nb::object show_stack(const NpyHeader& header, std::size_t count, nb::handle dtype, const Shown& memory) {
    std::array<std::size_t, NpyHeader::kMaxDims + 1> shape;
    std::array<npy_intp, NpyHeader::kMaxDims + 1> strides;
    shape[0] = count;
    std::size_t step = dtype_bytes(dtype);
    for (std::size_t index = 0; index < header.dims; ++index) {
        const std::size_t side = header.fortran_order ? index : header.dims - 1 - index;
        shape[side + 1] = header.sides[side];
        strides[side + 1] = static_cast<npy_intp>(step);
        step *= header.sides[side];
    }
    strides[0] = static_cast<npy_intp>(step);
    return show({shape.data(), header.dims + 1}, strides.data(), dtype, memory, false);
}

nb::object copied(nb::handle array) {
    if (PyArray_ITEMSIZE(reinterpret_cast<PyArrayObject*>(array.ptr())) == 0) {
        // It has no memory but its own, and its strings would have a length in a copy.
        return nb::borrow(array);
    }
    nb::object copy = made_by_python(PyArray_NewCopy(reinterpret_cast<PyArrayObject*>(array.ptr()), NPY_KEEPORDER));
    return copy;
}

}  // namespace spdl
