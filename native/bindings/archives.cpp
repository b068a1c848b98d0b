#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive/archive.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "bindings/python_bytes.h"
#include "core/buffer.h"
#include "core/errors.h"
#include "core/non_copyable.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

using Kind = TarParser::Kind;

#ifdef Py_GIL_DISABLED
// Python 3.13 miscounts the slices of one memoryview if several threads make and drop them at once.
constexpr bool kSharesView = false;
#else
constexpr bool kSharesView = true;
#endif

// Returns a name in any encoding, as Python spells the names of files.
nb::object decoded(std::string_view name) {
    nb::object text = made_by_python(PyUnicode_DecodeUTF8(name.data(), std::ssize(name), "surrogateescape"));
    return text;
}

// An archive in memory that shows its bytes to Python. Unlike most such objects, it does not count its views: any
// number of threads may take and drop one at once.
struct TarBytes {
    HeldBytes held;
};

int get_tar_buffer(PyObject* self, Py_buffer* view, int flags) {
    const HeldBytes& held = nb::inst_ptr<TarBytes>(self)->held;
    return PyBuffer_FillInfo(view, self, held.data, static_cast<Py_ssize_t>(held.size), held.writable ? 0 : 1, flags);
}

// The holder of an archive may also hold its views.
int traverse_tar_bytes(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
        Py_VISIT(nb::inst_ptr<TarBytes>(self)->held.owner.ptr());
    }
    return 0;
}

// The iterator over the members of an archive in memory.
class TarViews {
  public:
    // `where` goes in front of messages.
    TarViews(nb::handle data, std::string where)
        : held_(hold_bytes(data)), bytes_(nb::cast(TarBytes{held_})), walk_(held_.get()), where_(std::move(where)) {}

    // Null at the end.
    nb::object next() {
        Bytes content;
        if (ended_) {
            return {};
        }
        ended_ = true;
        if (!find(content)) {
            return {};
        }
        ended_ = false;
        const auto begin = content.data() - held_.data;
        const nb::object name = decoded(walk_.name());
        const nb::object slice = made_by_python(PySequence_GetSlice(whole().ptr(), begin, begin + std::ssize(content)));
        return nb::steal(PyTuple_Pack(2, name.ptr(), slice.ptr()));
    }

  private:
    bool find(Bytes& content) {
        try {
            return walk_.next(content);
        } catch (const FormatError& error) {
            throw FormatError(where_ + error.what());
        }
    }

    // The memoryview whose slices are the members.
    nb::object whole() {
        if (view_.is_valid()) {
            return view_;
        }
        nb::object view = made_by_python(PyMemoryView_FromObject(bytes_.ptr()));
        if (kSharesView) {
            view_ = view;
        }
        return view;
    }

    HeldBytes held_;
    nb::object bytes_;
    TarWalk walk_;
    std::string where_;
    nb::object view_;
    // After a failure, the place of the next member is unknown.
    bool ended_ = false;
};

// The iterator over the members of an archive in a stream. `read` returns at most the requested number of bytes, and
// none at the end.
class TarStream {
  public:
    // `first` holds the bytes that were read already: as many as a header has, unless the input is shorter.
    TarStream(nb::object read, nb::bytes first) : read_(std::move(read)), block_(std::move(first)) {}

    // Null at the end.
    nb::object next() {
        if (ended_) {
            return {};
        }
        ended_ = true;
        if (pending_) {
            pending_ = false;
            read_block();
        }
        for (;;) {
            const auto* const block = static_cast<const std::uint8_t*>(block_.data());
            if (block_.size() < padding_) {
                parser_.fail_truncated(size_);
            }
            if (block_.size() < padding_ + TarParser::kBlock) {
                parser_.take_end(block_.size() - padding_);
                return {};
            }
            const TarParser::Step step = parser_.take_header(block + padding_);
            if (step.kind == Kind::kEnd) {
                return {};
            }
            size_ = step.size;
            padding_ = step.padding;
            if (step.kind == Kind::kSkip) {
                skip(step.size);
                read_block();
                continue;
            }
            const nb::bytes content = read_up_to(step.size);
            if (content.size() < step.size) {
                parser_.fail_truncated(content.size());
            }
            if (step.kind == Kind::kMember) {
                // The next header is read only when it is asked for: it may not have been sent yet.
                pending_ = true;
                ended_ = false;
                const nb::object name = decoded(parser_.name());
                return nb::steal(PyTuple_Pack(2, name.ptr(), content.ptr()));
            }
            parser_.take_meta({static_cast<const std::uint8_t*>(content.data()), content.size()});
            read_block();
        }
    }

    [[nodiscard]] nb::handle reader() const { return read_; }

    void drop_reader() {
        ended_ = true;
        read_ = nb::none();
    }

  private:
    // Memory is taken as the bytes come, however large a member claims to be.
    static constexpr std::size_t kPiece = std::size_t{1} << 24;

    // The padding of the last block, and the next header.
    void read_block() { block_ = read_up_to(padding_ + TarParser::kBlock); }

    nb::bytes read_piece(std::size_t size) {
        nb::object piece = read_(size);
        if (piece.is_none()) {
            PyErr_SetString(PyExc_BlockingIOError,
                            "the stream has nothing to read yet: it is non-blocking, and has to block");
            throw nb::python_error();
        }
        if (!nb::isinstance<nb::bytes>(piece)) {
            if (PyObject_CheckBuffer(piece.ptr()) == 0) {
                throw nb::type_error("`src` must be a file opened in binary mode: its read() returned no bytes");
            }
            piece = made_by_python(PyBytes_FromObject(piece.ptr()));
        }
        nb::bytes bytes = nb::borrow<nb::bytes>(piece);
        if (bytes.size() > size) {
            throw nb::value_error("the stream gave more bytes than it was asked for");
        }
        return bytes;
    }

    // Fewer only if the stream ends.
    nb::bytes read_up_to(std::size_t size) {
        if (size == 0) {
            return nb::bytes("", 0);
        }
        nb::bytes piece = read_piece(std::min(size, kPiece));
        if (piece.size() == size || piece.size() == 0) {
            return piece;
        }
        std::string whole;
        while (piece.size() > 0) {
            whole.append(static_cast<const char*>(piece.data()), piece.size());
            if (whole.size() == size) {
                break;
            }
            piece = read_piece(std::min(size - whole.size(), kPiece));
        }
        return nb::bytes(whole.data(), whole.size());
    }

    void skip(std::size_t size) {
        std::size_t left = size;
        while (left > 0) {
            const std::size_t got = read_piece(std::min(left, kPiece)).size();
            if (got == 0) {
                parser_.fail_truncated(size - left);
            }
            left -= got;
        }
    }

    nb::object read_;
    nb::bytes block_;
    TarParser parser_;
    std::size_t size_ = 0;
    std::size_t padding_ = 0;
    bool pending_ = false;
    // After a failure, the place of the next member is unknown.
    bool ended_ = false;
};

PyObject* iterate(PyObject* self) {
    Py_INCREF(self);
    return self;
}

// The interpreter calls it directly, without nanobind in between: a file of some hundred bytes must not cost more than
// that.
template <typename Members>
PyObject* next_member(PyObject* self) {
    const nb::ft_object_guard guard{nb::handle(self)};
    try {
        return nb::inst_ptr<Members>(self)->next().release().ptr();
    } catch (const FormatError& error) {
        set_format_error(error);
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const nb::builtin_exception& error) {
        PyErr_SetString(error.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_ValueError,
                        error.what());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    return nullptr;
}

// A stream may hold the iterator over itself.
int traverse_stream(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
        Py_VISIT(nb::inst_ptr<TarStream>(self)->reader().ptr());
    }
    return 0;
}

int clear_stream(PyObject* self) {
    nb::inst_ptr<TarStream>(self)->drop_reader();
    return 0;
}

// Returns the places of all regular files, as 64-bit numbers in this machine's order, and their names in a row.
nb::tuple index_tar(nb::handle data) {
    const HeldBytes held = hold_bytes(data);
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint64_t> sizes;
    std::vector<std::uint64_t> ends;
    std::string names;
    {
        // Every header is read, and each may lie on a page that is not in memory yet.
        const ReleasedGil released;
        TarWalk walk(held.get());
        Bytes content;
        while (walk.next(content)) {
            offsets.push_back(static_cast<std::uint64_t>(content.data() - held.data));
            sizes.push_back(content.size());
            names += walk.name();
            // An attribute of all members may give each of them a name of a million letters, in an archive that is
            // hardly larger than that.
            if (names.size() > held.size) {
                throw FormatError("the tar archive has names that together are longer than the archive, " +
                                  std::to_string(held.size) + " bytes");
            }
            ends.push_back(names.size());
        }
    }
    const auto as_bytes = [](const std::vector<std::uint64_t>& numbers) {
        return nb::bytes(numbers.data(), numbers.size() * sizeof(std::uint64_t));
    };
    return nb::make_tuple(as_bytes(offsets), as_bytes(sizes), as_bytes(ends), nb::bytes(names.data(), names.size()));
}

Bytes bytes_of(const nb::bytes& bytes) {
    return {static_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

const std::uint8_t* whole_block(const nb::bytes& bytes) {
    if (bytes.size() != TarParser::kBlock) {
        throw nb::value_error("a header of a tar archive has 512 bytes");
    }
    return bytes_of(bytes).data();
}

// Returns the kind of what follows a header, and its size.
nb::tuple take_header(TarParser& parser, const nb::bytes& block) {
    constexpr const char* kKinds[] = {"member", "meta", "skip", "end"};
    const TarParser::Step step = parser.take_header(whole_block(block));
    return nb::make_tuple(kKinds[static_cast<std::size_t>(step.kind)], step.size);
}

nb::object look_at_tar_header(const nb::bytes& block) {
    const auto found = TarParser::look_at(whole_block(block));
    return found ? nb::object(nb::make_tuple(nb::bytes(found->first.data(), found->first.size()), found->second))
                 : nb::none();
}

// A stream with its unused input. One thread uses it at a time: others get a ValueError, as with a generator.
class HeldStream {
  public:
    void push(nb::bytes compressed) {
        const Turn turn(busy_);
        held_ = std::move(compressed);
        place_ = 0;
    }

    // Returns up to `most` bytes. If it returns none, it needs more input.
    nb::bytes pull(std::size_t most) {
        const Turn turn(busy_);
        const AlignedBuffer into(most);
        const Bytes left{static_cast<const std::uint8_t*>(held_.data()) + place_, held_.size() - place_};
        ZstdStream::Step step{};
        {
            const ReleasedGil released;
            step = stream_.inflate(left, {into.data(), most});
        }
        place_ += step.taken;
        return nb::bytes(into.data(), step.made);
    }

    [[nodiscard]] bool between_frames() {
        const Turn turn(busy_);
        return stream_.between_frames();
    }

  private:
    // The lock on the object is released together with the GIL.
    class Turn : NonCopyable {
      public:
        explicit Turn(bool& busy) : busy_(busy) {
            if (busy) {
                throw nb::value_error("another thread is reading from this zstd stream");
            }
            busy = true;
        }
        ~Turn() { busy_ = false; }

      private:
        bool& busy_;
    };

    bool busy_ = false;
    ZstdStream stream_;
    nb::bytes held_{"", 0};
    std::size_t place_ = 0;
};

using Bound = std::size_t (*)(std::size_t);
using Compress = std::size_t (*)(Bytes, std::span<std::uint8_t>);

// A member's two parts as one stream.
nb::bytes compressed(nb::handle header, nb::handle payload, Bound bound, Compress compress) {
    const HeldBytes parts[] = {hold_bytes(header), hold_bytes(payload)};
    const std::size_t size = parts[0].size + parts[1].size;
    AlignedBuffer result;
    std::size_t used = 0;
    {
        const ReleasedGil released;
        const AlignedBuffer whole(size);
        std::memcpy(whole.data(), parts[0].data, parts[0].size);
        if (parts[1].size > 0) {
            std::memcpy(whole.data() + parts[0].size, parts[1].data, parts[1].size);
        }
        result = AlignedBuffer(bound(size));
        used = compress({whole.data(), size}, {result.data(), result.size()});
    }
    return nb::bytes(result.data(), used);
}

std::uint32_t checksum(nb::handle header, nb::handle payload) {
    const HeldBytes parts[] = {hold_bytes(header), hold_bytes(payload)};
    const ReleasedGil released;
    return crc32(parts[1].get(), crc32(parts[0].get()));
}

}  // namespace

void bind_tar(nb::module_& module) {
    static PyType_Slot bytes_slots[] = {
        {Py_bf_getbuffer, reinterpret_cast<void*>(get_tar_buffer)},
        {Py_tp_traverse, reinterpret_cast<void*>(traverse_tar_bytes)},
        {0, nullptr},
    };
    static PyType_Slot view_slots[] = {
        {Py_tp_iter, reinterpret_cast<void*>(iterate)},
        {Py_tp_iternext, reinterpret_cast<void*>(next_member<TarViews>)},
        {0, nullptr},
    };
    static PyType_Slot stream_slots[] = {
        {Py_tp_iter, reinterpret_cast<void*>(iterate)},
        {Py_tp_iternext, reinterpret_cast<void*>(next_member<TarStream>)},
        {Py_tp_traverse, reinterpret_cast<void*>(traverse_stream)},
        {Py_tp_clear, reinterpret_cast<void*>(clear_stream)},
        {0, nullptr},
    };
    nb::class_<TarBytes>(module, "TarBytes", nb::type_slots(bytes_slots));
    nb::class_<TarViews>(module, "TarViews", nb::type_slots(view_slots))
        .def(nb::init<nb::handle, std::string>(), "data"_a, "where"_a);
    nb::class_<TarStream>(module, "TarStream", nb::type_slots(stream_slots))
        .def(nb::init<nb::object, nb::bytes>(), "read"_a, "first"_a);
    nb::class_<TarParser>(module, "TarParser")
        .def(nb::init<>())
        .def_prop_ro(
            "name", [](const TarParser& self) { return nb::bytes(self.name().data(), self.name().size()); },
            nb::lock_self())
        .def_prop_ro("is_plain", &TarParser::is_plain, nb::lock_self())
        .def("begin_at", &TarParser::begin_at, "place"_a, nb::lock_self())
        .def("take_header", &take_header, "block"_a, nb::lock_self())
        .def(
            "take_meta", [](TarParser& self, const nb::bytes& content) { self.take_meta(bytes_of(content)); },
            "content"_a, nb::lock_self())
        .def("take_end", &TarParser::take_end, "rest"_a, nb::lock_self())
        .def("fail_truncated", &TarParser::fail_truncated, "there"_a, nb::lock_self())
        .def_static("fail_joined", &TarParser::fail_joined, "place"_a);
    module.def("look_at_tar_header", &look_at_tar_header, "block"_a);
    module.def("index_tar", &index_tar, "data"_a);
}

void bind_zstd_stream(nb::module_& module) {
    nb::class_<HeldStream>(module, "ZstdStream")
        .def(nb::init<>())
        .def("push", &HeldStream::push, "compressed"_a, nb::lock_self())
        .def("pull", &HeldStream::pull, "most"_a, nb::lock_self())
        .def("between_frames", &HeldStream::between_frames, nb::lock_self());
}

void bind_compress(nb::module_& module) {
    module.def(
        "deflate",
        [](nb::handle header, nb::handle payload) { return compressed(header, payload, &deflate_bound, &deflate); },
        "header"_a, "payload"_a);
    module.def(
        "zstd", [](nb::handle header, nb::handle payload) { return compressed(header, payload, &zstd_bound, &zstd); },
        "header"_a, "payload"_a);
    module.def("crc32", &checksum, "header"_a, "payload"_a);
}

}  // namespace spdl
