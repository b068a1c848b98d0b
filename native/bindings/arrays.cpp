#include "bindings/arrays.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "arrays/npy_header.h"
#include "arrays/wav_header.h"
#include "bindings/held_bytes.h"
#include "bindings/numpy_array.h"
#include "core/format_error.h"

namespace nb = nanobind;

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

// Converts seconds to frames, rounded down. A time that differs from that of a frame only by rounded digits is that
// frame's.
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
    module.def("load_npy", &load_npy, nb::arg("data"), nb::arg("copy"));
    module.def("load_wav", &load_wav, nb::arg("data"), nb::arg("start").none(), nb::arg("duration").none());
    module.def("parse_wav", &parse_wav, nb::arg("data"));
}

}  // namespace spdl
