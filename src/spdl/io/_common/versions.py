"""Versions and licences of the libraries in use."""

from __future__ import annotations

from typing import Literal, cast

from spdl.io._common.native import native


def get_ffmpeg_versions() -> dict[str, tuple[int, int, int]]:
    """Return the versions of the FFmpeg libraries in use.

    A wheel brings its own FFmpeg; a build from source uses the system's. The libraries of FFmpeg 5.1 are at major
    version 59 (libavcodec), FFmpeg 7.1 at 61.

    Returns:
        The major, minor and micro version of each library.

    Example:
        >>> sorted(get_ffmpeg_versions())
        ['libavcodec', 'libavfilter', 'libavformat', 'libavutil', 'libswresample', 'libswscale']
    """
    return dict(native.ffmpeg_versions())


def get_ffmpeg_license() -> str:
    """Return the licence of the FFmpeg libraries in use: the strictest one, if they differ.

    Returns:
        FFmpeg's own words: ``"LGPL version 2.1 or later"`` for the FFmpeg in a wheel, ``"GPL version 2 or later"`` for
        most systems.

    Example:
        >>> get_ffmpeg_license().split()[1]
        'version'
    """
    return native.ffmpeg_license()


def get_ffmpeg_filters() -> list[str]:
    """Return the names of the filters that the FFmpeg in use has, in alphabetical order.

    Example:
        >>> "scale" in get_ffmpeg_filters()
        True
    """
    return native.ffmpeg_filters()


def get_libjpeg_turbo_version() -> tuple[int, int, int]:
    """Return the version of libjpeg-turbo that this build was made with.

    Wheels and builds from source bring their own, of the version that our entropy decoder is written for. A build that
    could not download it uses the system's.

    Returns:
        The major, minor and micro version.

    Example:
        >>> get_libjpeg_turbo_version() >= (2, 1, 0)
        True
    """
    return native.libjpeg_turbo_version()


def get_entropy_decoder() -> Literal["own", "libjpeg"]:
    """Return the name of the decoder of Huffman codes in baseline JPEGs.

    Returns:
        ``"own"`` for our own decoder, which works inside the libjpeg-turbo that it is built with and loads photos a
        third faster; ``"libjpeg"`` for libjpeg-turbo's own, in a build on the system's.

    Example:
        >>> get_entropy_decoder() in ("own", "libjpeg")
        True
    """
    return cast('Literal["own", "libjpeg"]', native.entropy_decoder_names()[0])
