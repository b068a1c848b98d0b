#include "arrays/arrays.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "archive/archive.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "bindings/numpy_array.h"
#include "bindings/python_bytes.h"
#include "core/buffer.h"
#include "core/errors.h"
#include "npz/npz.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

nb::object load_npy(nb::handle data, bool copy) {
    const HeldBytes held = hold_bytes(data);
    const NpyHeader header = parse_npy_header(held.get());
    const nb::object dtype = numpy_dtype(header);
    const std::size_t bytes = payload_bytes(header, dtype);
    if (bytes > held.size - header.offset) {
        throw FormatError("the npy data is truncated: its " + std::to_string(bytes) +
                          " bytes of elements begin at byte " + std::to_string(header.offset) + ", and there are " +
                          std::to_string(held.size - header.offset));
    }
    const nb::object array = show_array(header, dtype, {held.data + header.offset, held.writable, held.owner});
    return copy ? copied(array) : array;
}

// Converts seconds to frames, rounded down. A time that differs from a frame's only by rounded digits is that frame's.
std::size_t frames(double seconds, std::uint32_t sample_rate) {
    return static_cast<std::size_t>(std::min(std::floor(seconds * sample_rate + 1e-6), 9e18));
}

nb::object load_wav(nb::handle data, std::optional<double> start, std::optional<double> duration) {
    const HeldBytes held = hold_bytes(data);
    const WavSamples samples = find_wav_samples(held.get());
    std::size_t skipped = 0;
    if (start.has_value()) {
        skipped = frames(*start, samples.sample_rate);
        if (*start * samples.sample_rate >= static_cast<double>(samples.frames) || skipped >= samples.frames) {
            throw nb::value_error(("`time_offset_seconds` must be less than the " +
                                   std::to_string(static_cast<double>(samples.frames) / samples.sample_rate) +
                                   " seconds that the wav data has, got " + std::to_string(*start))
                                      .c_str());
        }
    }
    std::size_t count = samples.frames - skipped;
    if (duration.has_value()) {
        count = std::min(count, frames(*duration, samples.sample_rate));
    }
    const std::size_t block = samples.bytes * samples.channels;
    const std::array<std::size_t, 2> shape = {count, samples.channels};
    return show_array(shape, numpy_dtype(samples.kind, samples.bytes),
                      {held.data + samples.offset + skipped * block, held.writable, held.owner});
}

WavHeader parse_wav(nb::handle data) {
    return parse_wav_header(hold_bytes(data).get());
}

std::string represent(const WavHeader& self) {
    return "WAVHeader(audio_format=" + std::to_string(self.audio_format) +
           ", num_channels=" + std::to_string(self.num_channels) + ", sample_rate=" + std::to_string(self.sample_rate) +
           ", bits_per_sample=" + std::to_string(self.bits_per_sample) +
           ", data_size=" + std::to_string(self.data_size) + ")";
}

constexpr std::string_view kSuffix = ".npy";

nb::str decoded(std::string_view name, bool utf8) {
    const bool ascii =
        std::all_of(name.begin(), name.end(), [](char letter) { return static_cast<signed char>(letter) >= 0; });
    nb::object text =
        made_by_python(utf8 || ascii ? PyUnicode_DecodeUTF8(name.data(), std::ssize(name), "surrogateescape")
                                     : PyUnicode_Decode(name.data(), std::ssize(name), "cp437", "strict"));
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

    // SIZE_MAX if none exists.
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

void bind_arrays(nb::module_& module) {
    nb::class_<WavHeader>(module, "WAVHeader",
                          "The format of a wav file's samples, as parse_wav returns it.\n"
                          "\n"
                          "All are integers. Nothing but the channels and the sample rate is checked.\n"
                          "\n"
                          "Example:\n"
                          "    >>> header = parse_wav(sound)\n"
                          "    >>> header.data_size // header.block_align / header.sample_rate  # Seconds.\n"
                          "    1.0")
        .def_ro("audio_format", &WavHeader::audio_format,
                "1 is integers, 3 floating point. For extensible files it is the format that their extension names.")
        .def_ro("num_channels", &WavHeader::num_channels, "The number of channels.")
        .def_ro("sample_rate", &WavHeader::sample_rate, "Frames per second; a frame has a sample of each channel.")
        .def_ro("byte_rate", &WavHeader::byte_rate, "Bytes per second.")
        .def_ro("block_align", &WavHeader::block_align, "Bytes per frame.")
        .def_ro("bits_per_sample", &WavHeader::bits_per_sample, "Bits per sample.")
        .def_ro("data_size", &WavHeader::data_size, "The size of the samples in bytes, as the file says.")
        .def("__repr__", &represent);
    module.def("load_npy", &load_npy, "data"_a, "copy"_a);
    module.def("load_wav", &load_wav, "data"_a, "start"_a.none(), "duration"_a.none());
    module.def("parse_wav", &parse_wav, "data"_a);
}

void bind_npz(nb::module_& module) {
    nb::class_<NpzArchive>(module, "NpzArchive")
        .def(nb::init<nb::handle, std::size_t, bool>(), "data"_a, "max_uncompressed_bytes"_a, "verify"_a)
        .def("keys", &NpzArchive::keys)
        .def("has", &NpzArchive::has, "key"_a.none())
        .def("get", &NpzArchive::get, "key"_a.none())
        .def("get_many", &NpzArchive::get_many, "keys"_a);
    module.def("load_npz_batch", &load_npz_batch, "sources"_a, "threads"_a, "max_uncompressed_bytes"_a, "verify"_a);
}

}  // namespace spdl
