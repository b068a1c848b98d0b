#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <new>
#include <string_view>
#include <vector>

#include "bindings/av_objects.h"
#include "bindings/buffer.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "core/errors.h"
#include "core/parallel.h"
#include "ffmpeg/ffmpeg_log.h"
#include "image/jpeg/jpeg.h"
#include "image/resize/kernels.h"
#include "media/decoder.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

std::vector<std::string_view> kernel_names() {
    std::vector<std::string_view> names;
    for (const Kernels* variant : available_kernels()) {
        names.emplace_back(variant->name);
    }
    return names;
}

void translate_out_of_memory(const std::exception_ptr& error, void* /*unused*/) {
    try {
        std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
        PyErr_SetString(PyExc_MemoryError,
                        "the system has no memory left: load fewer or smaller images or clips at once");
    }
}

void translate_format_error(const std::exception_ptr& error, void* /*unused*/) {
    try {
        std::rethrow_exception(error);
    } catch (const FormatError& reason) {
        set_format_error(reason);
    }
}

// Runs signal handlers as Python's own files do (PEP 475), so Ctrl-C ends the wait for a pipe.
void run_signal_handlers() {
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) {
        throw nb::python_error();
    }
}

}  // namespace

NB_MODULE(_native, module) {
    // A tensor that lives until the interpreter ends keeps its buffer. That is not a leak to warn users of.
    nb::set_leak_warnings(false);
    nb::register_exception_translator(translate_out_of_memory);
    nb::register_exception_translator(translate_format_error);
    install_log_callback();
    register_backends();
    on_interrupt = run_signal_handlers;
    bind_arrays(module);
    bind_buffer(module);
    bind_compress(module);
    bind_images(module);
    bind_av_packets(module);
    bind_av_batch(module);
    bind_av_bsf(module);
    bind_av_frames(module);
    bind_av_demuxer(module);
    bind_av_decoder(module);
    bind_av_muxer(module);
    bind_av_reference_frames(module);
    bind_av_video_batch(module);
    bind_av_video_reader(module);
    bind_mapped_file(module);
    bind_npz(module);
    bind_tar(module);
    bind_segments(module);
    bind_tables(module);
    bind_text(module);
    bind_trace(module);
    bind_zstd_stream(module);
    bind_batch(module);
    bind_augment(module);
    bind_cuda(module);
    bind_gpu_images(module);
    bind_gpu_video(module);
    bind_encode(module);
    bind_ffmpeg(module);
    bind_filter_graph(module);
    module.def("kernel_names", &kernel_names);
    module.def("select_kernels", &select_kernels, "name"_a);
    module.def("libjpeg_turbo_version", &libjpeg_turbo_version);
    module.def("entropy_decoder_names", &entropy_decoder_names);
    module.def("select_entropy_decoder", &select_entropy_decoder, "name"_a);
    module.def("last_entropy_decoder", &last_entropy_decoder);
}

}  // namespace spdl
