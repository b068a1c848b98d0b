"""The libraries that this build of spdl.io uses, FFmpeg's log, and traces of what the threads do."""

from spdl.io._common.ffmpeg_log import get_ffmpeg_log_level, set_ffmpeg_log_level
from spdl.io._common.trace import trace_counter, trace_event, trace_gc, tracing
from spdl.io._common.versions import (
    get_entropy_decoder,
    get_ffmpeg_filters,
    get_ffmpeg_license,
    get_ffmpeg_versions,
    get_libjpeg_turbo_version,
)
from spdl.io._device.cuda import (
    CUDAInfo,
    CUDALibrary,
    built_with_cuda,
    built_with_nvcodec,
    built_with_nvjpeg,
    cuda_info,
)

__all__ = [
    "CUDAInfo",
    "CUDALibrary",
    "built_with_cuda",
    "built_with_nvcodec",
    "built_with_nvjpeg",
    "cuda_info",
    "get_entropy_decoder",
    "get_ffmpeg_filters",
    "get_ffmpeg_license",
    "get_ffmpeg_log_level",
    "get_ffmpeg_versions",
    "get_libjpeg_turbo_version",
    "set_ffmpeg_log_level",
    "trace_counter",
    "trace_event",
    "trace_gc",
    "tracing",
]
