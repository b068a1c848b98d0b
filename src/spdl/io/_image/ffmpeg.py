"""Versions, licence and filters of the FFmpeg in use."""

from spdl.io._common.native import native


def get_ffmpeg_versions() -> dict[str, tuple[int, int, int]]:
    """Return the versions of the FFmpeg libraries in use.

    A wheel brings its own FFmpeg; a build from source uses the system's. The libraries of FFmpeg 5.1 are at major
    version 59 (libavcodec), those of 7.1 at 61.

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
        that of most systems.

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
