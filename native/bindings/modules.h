#pragma once

#include <nanobind/nanobind.h>

#include "core/errors.h"

namespace spdl {

// Binds the classes in which Python passes checked options: LoadOptions, RandomCrop, DemuxOptions and
// DecodeOptions.
void bind_options(nanobind::module_& module);

// Binds single arrays over the caller's bytes: npy and wav.
void bind_arrays(nanobind::module_& module);

// Binds changes to the pixels of images, and batches with several views of each image.
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

// Binds compression and checksums of the members of archives that are written.
void bind_compress(nanobind::module_& module);

void bind_cuda(nanobind::module_& module);

void bind_encode(nanobind::module_& module);

void bind_ffmpeg(nanobind::module_& module);

void bind_filter_graph(nanobind::module_& module);

// Sets the Python exception that stands for this one. Called with the GIL held.
void set_format_error(const FormatError& error);

void bind_gpu_images(nanobind::module_& module);

void bind_gpu_video(nanobind::module_& module);

// Binds ImagePackets, ImageFrames, ImageCodec and the functions from one to the next.
void bind_images(nanobind::module_& module);

// Binds files as objects with the buffer protocol.
void bind_mapped_file(nanobind::module_& module);

// Binds archives of arrays over the caller's bytes.
void bind_npz(nanobind::module_& module);

// Binds the painting of COCO's segmentations.
void bind_segments(nanobind::module_& module);

// Binds what takes rows of tables and of lists.
void bind_tables(nanobind::module_& module);

// Binds archives of files: their members as views, and the parser for archives that come in a stream.
void bind_tar(nanobind::module_& module);

// Binds the packing of token sequences into rows, and the writing of the rows.
void bind_text(nanobind::module_& module);

// Binds zstd for Pythons whose library has none, before 3.14.
void bind_zstd_stream(nanobind::module_& module);

}  // namespace spdl
