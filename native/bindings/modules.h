#pragma once

#include <nanobind/nanobind.h>

#include "core/errors.h"

namespace spdl {

// Each binds a part of the module.
void bind_arrays(nanobind::module_& module);
void bind_augment(nanobind::module_& module);
void bind_av_batch(nanobind::module_& module);
void bind_av_bsf(nanobind::module_& module);
void bind_av_decoder(nanobind::module_& module);
void bind_av_frames(nanobind::module_& module);
void bind_av_muxer(nanobind::module_& module);
void bind_av_packets(nanobind::module_& module);
void bind_av_reference_frames(nanobind::module_& module);
void bind_av_video_batch(nanobind::module_& module);
void bind_av_video_reader(nanobind::module_& module);
void bind_batch(nanobind::module_& module);
void bind_compress(nanobind::module_& module);
void bind_cuda(nanobind::module_& module);
void bind_encode(nanobind::module_& module);
void bind_ffmpeg(nanobind::module_& module);
void bind_filter_graph(nanobind::module_& module);
void bind_gpu_images(nanobind::module_& module);
void bind_gpu_video(nanobind::module_& module);
void bind_images(nanobind::module_& module);
void bind_mapped_file(nanobind::module_& module);
void bind_npz(nanobind::module_& module);
void bind_options(nanobind::module_& module);
void bind_segments(nanobind::module_& module);
void bind_tables(nanobind::module_& module);
void bind_tar(nanobind::module_& module);
void bind_text(nanobind::module_& module);
void bind_zstd_stream(nanobind::module_& module);

// Sets the Python exception that stands for this one. Called with the GIL held.
void set_format_error(const FormatError& error);

}  // namespace spdl
