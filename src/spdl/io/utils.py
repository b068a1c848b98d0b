"""The FFmpeg and the libjpeg-turbo that this build of spdl.io uses."""

from spdl.io._image.ffmpeg import get_ffmpeg_filters, get_ffmpeg_license, get_ffmpeg_versions
from spdl.io._image.libjpeg_turbo import get_entropy_decoder, get_libjpeg_turbo_version

__all__ = [
    "get_entropy_decoder",
    "get_ffmpeg_filters",
    "get_ffmpeg_license",
    "get_ffmpeg_versions",
    "get_libjpeg_turbo_version",
]
