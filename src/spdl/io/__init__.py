"""Media and arrays: from bytes to decoded frames, buffers and the arrays of frameworks.

Functions release the GIL while they read, decode or copy pixels, so any number of threads can call them at once.
Importing this package loads no native code; the first call does.
"""

from typing import TYPE_CHECKING

from spdl._not_here import missing
from spdl.io._archive.members import SampleIndex, TarIndex, TarMember, TarSample, group_samples
from spdl.io._archive.tar_file import TarFile, tar_index
from spdl.io._archive.tar_stream import iter_tarfile
from spdl.io._array.arrays import ArrayInterface, CUDAArrayInterface, to_jax, to_numba, to_numpy, to_torch
from spdl.io._array.npy import load_npy, save_npy
from spdl.io._array.npz import NpzFile, load_npz, load_npz_batch, save_npz
from spdl.io._array.wav import load_wav, parse_wav
from spdl.io._av.audio_reader import AudioReader
from spdl.io._av.batches import AudioBatch, VideoBatch, load_audio_batch, load_video_batch
from spdl.io._av.decoder import AudioDecoder, Decoder, VideoDecoder, decode_packets, sample_decode_video
from spdl.io._av.demuxer import BSF, Demuxer, apply_bsf, demux_audio, demux_video
from spdl.io._av.encoder import (
    AudioEncodeConfig,
    AudioEncoder,
    VideoEncodeConfig,
    VideoEncoder,
    audio_encode_config,
    create_reference_audio_frame,
    create_reference_video_frame,
    video_encode_config,
)
from spdl.io._av.filters import (
    FilterGraph,
    get_abuffer_desc,
    get_audio_filter_desc,
    get_buffer_desc,
    get_filter_desc,
)
from spdl.io._av.load import convert_array, convert_frames, load_audio, load_video
from spdl.io._av.muxer import Muxer
from spdl.io._av.nvdec import (
    NvDecDecoder,
    decode_packets_nvdec,
    nv12_to_bgr,
    nv12_to_rgb,
    nvdec_decoder,
    streaming_load_video_nvdec,
)
from spdl.io._av.time_window import random_clips, uniform_clips
from spdl.io._av.video_reader import VideoIndex, VideoReader
from spdl.io._common.errors import FormatError, LoadError, LoadFailure
from spdl.io._common.per_thread import FilesPerThread
from spdl.io._common.storage import cpu_storage
from spdl.io._device.cuda import CUDAConfig, cuda_config
from spdl.io._device.transfer import (
    transfer_buffer,
    transfer_buffer_cpu,
    transfer_tensor,
    transfer_tensor_d2h,
    transfer_tensor_h2d,
)
from spdl.io._image.augment import (
    RandomColorJitter,
    RandomResizedCrop,
    random_color_jitter,
    random_flip,
    random_resized_crop,
)
from spdl.io._image.batch import load_image_batch
from spdl.io._image.config import DecodeConfig, DemuxConfig, decode_config, demux_config
from spdl.io._image.encode import EncodeConfig, encode_config, encode_image, save_image
from spdl.io._image.gpu_images import decode_image_nvjpeg, load_image_batch_nvjpeg
from spdl.io._image.image import count_pages, demux_image, load_image
from spdl.io._image.image_filters import get_video_filter_desc
from spdl.io._image.masks import coco_masks, load_mask_batch
from spdl.io._image.options import ImageOptions
from spdl.io._text.packing import PackedRow, PackedRows, PackingCounts
from spdl.io._text.pad import Padded, pad

if TYPE_CHECKING:
    from spdl.io._native import (
        AudioCodec,
        AudioFrames,
        AudioPackets,
        CPUBuffer,
        CPUStorage,
        CUDABuffer,
        ImageCodec,
        ImageFrames,
        ImagePackets,
        VideoCodec,
        VideoFrames,
        VideoPackets,
        WAVHeader,
    )
    from spdl.io._text.row_writer import RowWriter

__all__ = [
    "BSF",
    "ArrayInterface",
    "AudioBatch",
    "AudioCodec",
    "AudioDecoder",
    "AudioEncodeConfig",
    "AudioEncoder",
    "AudioFrames",
    "AudioPackets",
    "AudioReader",
    "CPUBuffer",
    "CPUStorage",
    "CUDAArrayInterface",
    "CUDABuffer",
    "CUDAConfig",
    "DecodeConfig",
    "Decoder",
    "DemuxConfig",
    "Demuxer",
    "EncodeConfig",
    "FilesPerThread",
    "FilterGraph",
    "FormatError",
    "ImageCodec",
    "ImageFrames",
    "ImageOptions",
    "ImagePackets",
    "LoadError",
    "LoadFailure",
    "Muxer",
    "NpzFile",
    "NvDecDecoder",
    "PackedRow",
    "PackedRows",
    "PackingCounts",
    "Padded",
    "RandomColorJitter",
    "RandomResizedCrop",
    "RowWriter",
    "SampleIndex",
    "TarFile",
    "TarIndex",
    "TarMember",
    "TarSample",
    "VideoBatch",
    "VideoCodec",
    "VideoDecoder",
    "VideoEncodeConfig",
    "VideoEncoder",
    "VideoFrames",
    "VideoIndex",
    "VideoPackets",
    "VideoReader",
    "WAVHeader",
    "apply_bsf",
    "audio_encode_config",
    "coco_masks",
    "convert_array",
    "convert_frames",
    "count_pages",
    "cpu_storage",
    "create_reference_audio_frame",
    "create_reference_video_frame",
    "cuda_config",
    "decode_config",
    "decode_image_nvjpeg",
    "decode_packets",
    "decode_packets_nvdec",
    "demux_audio",
    "demux_config",
    "demux_image",
    "demux_video",
    "encode_config",
    "encode_image",
    "get_abuffer_desc",
    "get_audio_filter_desc",
    "get_buffer_desc",
    "get_filter_desc",
    "get_video_filter_desc",
    "group_samples",
    "iter_tarfile",
    "load_audio",
    "load_audio_batch",
    "load_image",
    "load_image_batch",
    "load_image_batch_nvjpeg",
    "load_mask_batch",
    "load_npy",
    "load_npz",
    "load_npz_batch",
    "load_video",
    "load_video_batch",
    "load_wav",
    "nv12_to_bgr",
    "nv12_to_rgb",
    "nvdec_decoder",
    "pad",
    "parse_wav",
    "random_clips",
    "random_color_jitter",
    "random_flip",
    "random_resized_crop",
    "sample_decode_video",
    "save_image",
    "save_npy",
    "save_npz",
    "streaming_load_video_nvdec",
    "tar_index",
    "to_jax",
    "to_numba",
    "to_numpy",
    "to_torch",
    "transfer_buffer",
    "transfer_buffer_cpu",
    "transfer_tensor",
    "transfer_tensor_d2h",
    "transfer_tensor_h2d",
    "uniform_clips",
    "video_encode_config",
]


def __getattr__(name: str) -> object:
    if name == "RowWriter":
        from spdl.io._text.row_writer import RowWriter  # noqa: PLC0415 - not everyone who imports spdl.io needs numpy.

        return RowWriter
    if name in __all__:
        from spdl.io._common.native import native  # noqa: PLC0415 - the classes that are not here are native ones.

        return getattr(native, name)
    raise missing(__name__, name)


def __dir__() -> list[str]:
    return sorted(__all__)
