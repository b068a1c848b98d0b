"""The FFmpeg that this build of spdl.io uses."""

from spdl.io._image.ffmpeg import get_ffmpeg_filters, get_ffmpeg_license, get_ffmpeg_versions

__all__ = ["get_ffmpeg_filters", "get_ffmpeg_license", "get_ffmpeg_versions"]
