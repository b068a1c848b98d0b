#include "bindings/npz.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "archive/zip_directory.h"
#include "arrays/npy_header.h"
#include "bindings/gil.h"
#include "bindings/held_bytes.h"
#include "bindings/numpy_array.h"
#include "bindings/owned_memory.h"
#include "core/aligned_buffer.h"
#include "core/format_error.h"
#include "npz/npz_batch.h"
#include "npz/npz_member.h"

namespace nb = nanobind;

namespace spdl {
namespace {

constexpr std::string_view kSuffix = ".npy";

nb::str decoded(std::string_view name, bool utf8) {
    const bool ascii =
        std::all_of(name.begin(), name.end(), [](char letter) { return static_cast<signed char>(letter) >= 0; });
    nb::object text = nb::steal(utf8 || ascii ? PyUnicode_DecodeUTF8(name.data(), std::ssize(name), "surrogateescape")
                                              : PyUnicode_Decode(name.data(), std::ssize(name), "cp437", "strict"));
    if (!text.is_valid()) {
        throw nb::python_error();
    }
    return nb::borrow<nb::str>(text);
}

// The keys of members, or of a batch's columns: their names without ".npy".
class Keys {
  public:
    template <typename Named>
    explicit Keys(const std::vector<Named>& members) {
        for (const Named& member : members) {
            if (!member.name.ends_with(kSuffix)) {
                bare_.insert(member.name);
            }
        }
    }

    template <typename Named>
    [[nodiscard]] nb::str get(const Named& member) const {
        std::string_view key = member.name;
        if (key.ends_with(kSuffix)) {
            key.remove_suffix(kSuffix.size());
            // Beside "a.npy" there may be a member "a", and the key is that member's.
            if (bare_.contains(key)) {
                key = member.name;
            }
        }
        return decoded(key, member.utf8);
    }

  private:
    std::unordered_set<std::string_view> bare_;
};

// A member of an archive holds nothing but the array.
void check_payload(const NpyHeader& header, nb::handle dtype, std::size_t there) {
    if (const std::size_t size = payload_bytes(header, dtype); size != there) {
        throw FormatError("the npy header gives elements of " + std::to_string(size) + " bytes, and there are " +
                          std::to_string(there) + " behind it");
    }
}

// Runs `step`, and names the member in its errors.
template <typename Step>
auto for_member(const ZipMember& member, const Step& step) {
    try {
        return step();
    } catch (const FormatError& error) {
        throw FormatError(describe(member) + ": " + error.what());
    }
}

// An open archive. Nothing in it changes, so threads may read from it at the same time.
class NpzArchive {
  public:
    NpzArchive(nb::handle data, std::size_t max_uncompressed_bytes, bool verify)
        : held_(hold_bytes(data)), directory_(held_.get()), verify_(verify) {
        check_budget(directory_, max_uncompressed_bytes);
        const auto& members = directory_.members();
        const Keys keys(members);
        // If several members have one name, the last one counts, as everywhere: archives are changed by appending to
        // them.
        for (std::size_t index = 0; index < members.size(); ++index) {
            index_[keys.get(members[index])] = index;
        }
    }

    [[nodiscard]] nb::list keys() const { return index_.keys(); }

    [[nodiscard]] bool has(nb::handle key) const { return look(key) != SIZE_MAX; }

    [[nodiscard]] nb::object get(nb::handle key) const {
        const ZipMember& member = directory_.members()[find(key)];
        return for_member(member, [&] {
            if (is_stored(member)) {
                return show_stored(checked_bytes(member));
            }
            auto memory = std::make_unique<AlignedBuffer>();
            {
                const ReleasedGil released;
                *memory = inflated(member);
            }
            return show_owned(std::move(memory));
        });
    }

    // Everything that has to be inflated, or read for its checksum, is done in one go without the GIL.
    [[nodiscard]] nb::list get_many(const nb::list& keys) const {
        struct Found {
            const ZipMember* member;
            Bytes stored;
            std::unique_ptr<AlignedBuffer> memory;
        };
        std::vector<Found> found;
        found.reserve(keys.size());
        for (const nb::handle key : keys) {
            found.push_back({&directory_.members()[find(key)], {}, nullptr});
        }
        {
            const ReleasedGil released;
            for (Found& each : found) {
                for_member(*each.member, [&] {
                    if (is_stored(*each.member)) {
                        each.stored = stored_bytes(directory_, *each.member, verify_);
                    } else {
                        each.memory = std::make_unique<AlignedBuffer>(inflated(*each.member));
                    }
                });
            }
        }
        nb::list arrays;
        for (Found& each : found) {
            arrays.append(for_member(*each.member, [&] {
                return each.memory ? show_owned(std::move(each.memory)) : show_stored(each.stored);
            }));
        }
        return arrays;
    }

  private:
    [[nodiscard]] std::size_t position(nb::handle key) const {
        PyObject* const found = PyDict_GetItemWithError(index_.ptr(), key.ptr());
        if (found == nullptr) {
            if (PyErr_Occurred() != nullptr) {
                throw nb::python_error();
            }
            return SIZE_MAX;
        }
        return PyLong_AsSize_t(found);
    }

    // SIZE_MAX if there is none.
    [[nodiscard]] std::size_t look(nb::handle key) const {
        std::size_t index = position(key);
        if (index == SIZE_MAX && nb::isinstance<nb::str>(key) && nb::cast<bool>(key.attr("endswith")(".npy"))) {
            index = position(key.attr("removesuffix")(".npy"));
            if (index != SIZE_MAX && !directory_.members()[index].name.ends_with(kSuffix)) {
                index = SIZE_MAX;
            }
        }
        return index;
    }

    [[nodiscard]] std::size_t find(nb::handle key) const {
        const std::size_t index = look(key);
        if (index == SIZE_MAX) {
            constexpr std::size_t kShown = 20;
            const nb::list known = keys();
            const nb::object shown = nb::steal(PyList_GetSlice(known.ptr(), 0, kShown));
            const nb::object message =
                nb::str("the archive has no array {!r}; it has {} of them: {!r}{}")
                    .attr("format")(key, known.size(), shown, known.size() > kShown ? " and so on" : "");
            PyErr_SetObject(PyExc_KeyError, message.ptr());
            throw nb::python_error();
        }
        return index;
    }

    [[nodiscard]] Bytes checked_bytes(const ZipMember& member) const {
        if (!verify_ || member.size < kLargeBytes) {
            return stored_bytes(directory_, member, verify_);
        }
        const ReleasedGil released;
        return stored_bytes(directory_, member, true);
    }

    [[nodiscard]] AlignedBuffer inflated(const ZipMember& member) const {
        check_claim(member);
        AlignedBuffer memory(member.size);
        inflate_member(directory_, member, {memory.data(), member.size});
        return memory;
    }

    [[nodiscard]] nb::object show_stored(Bytes bytes) const {
        return show(bytes, {held_.data + (bytes.data() - held_.data), held_.writable, held_.owner});
    }

    static nb::object show_owned(std::unique_ptr<AlignedBuffer> memory) {
        const std::span<std::uint8_t> bytes(memory->data(), memory->size());
        const nb::object owner = own_memory(std::move(memory));
        return show(bytes, {bytes.data(), true, owner});
    }

    static nb::object show(Bytes bytes, Shown memory) {
        const NpyHeader header = parse_npy_header(bytes);
        const nb::object dtype = numpy_dtype(header);
        check_payload(header, dtype, bytes.size() - header.offset);
        memory.data += header.offset;
        return show_array(header, dtype, memory);
    }

    HeldBytes held_;
    ZipDirectory directory_;
    // From keys to positions in the directory.
    nb::dict index_;
    bool verify_;
};

// The archives are held while they are read without the GIL.
nb::dict load_npz_batch(const nb::list& sources, int threads, std::size_t max_uncompressed_bytes, bool verify) {
    std::vector<HeldBytes> held;
    std::vector<Bytes> archives;
    for (const nb::handle source : sources) {
        archives.push_back(held.emplace_back(hold_bytes(source)).get());
    }
    std::optional<NpzBatch> batch;
    {
        const ReleasedGil released;
        batch.emplace(archives, max_uncompressed_bytes, verify);
    }
    std::vector<nb::object> dtypes;
    for (const NpzBatch::Column& column : batch->columns()) {
        try {
            const nb::object& dtype = dtypes.emplace_back(numpy_dtype(column.header));
            check_payload(column.header, dtype, column.row_bytes);
        } catch (const FormatError& error) {
            throw FormatError("srcs[0], " + describe(*column.members.front()) + ": " + error.what());
        }
    }
    {
        const ReleasedGil released;
        batch->load(threads);
    }
    nb::dict arrays;
    const Keys keys(batch->columns());
    for (std::size_t index = 0; index < dtypes.size(); ++index) {
        NpzBatch::Column& column = batch->columns()[index];
        std::uint8_t* const data = column.row(0);
        const nb::object owner = own_memory(std::make_unique<AlignedBuffer>(std::move(column.memory)));
        arrays[keys.get(column)] = show_stack(column.header, archives.size(), dtypes[index], {data, true, owner});
    }
    return arrays;
}

}  // namespace

void bind_npz(nb::module_& module) {
    nb::class_<NpzArchive>(module, "NpzArchive")
        .def(nb::init<nb::handle, std::size_t, bool>(), nb::arg("data"), nb::arg("max_uncompressed_bytes"),
             nb::arg("verify"))
        .def("keys", &NpzArchive::keys)
        .def("has", &NpzArchive::has, nb::arg("key").none())
        .def("get", &NpzArchive::get, nb::arg("key").none())
        .def("get_many", &NpzArchive::get_many, nb::arg("keys"));
    module.def("load_npz_batch", &load_npz_batch, nb::arg("sources"), nb::arg("threads"),
               nb::arg("max_uncompressed_bytes"), nb::arg("verify"));
}

}  // namespace spdl
