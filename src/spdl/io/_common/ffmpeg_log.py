"""FFmpeg's log, as far as Python's logging shows it."""

from __future__ import annotations

import atexit
import logging
from functools import cache

from spdl._check import check_int
from spdl.io._common.native import native

_LOG = logging.getLogger("spdl.io.ffmpeg")

# FFmpeg's levels, each for itself and all below, and the level of the same weight in Python.
_LEVELS = ((8, logging.CRITICAL), (16, logging.ERROR), (24, logging.WARNING), (32, logging.INFO))


# Far beyond FFmpeg's own, and within an int of C.
_HIGHEST = 1000


def get_ffmpeg_log_level() -> int:
    """Return the level up to which FFmpeg's log goes to Python's logging, as FFmpeg numbers it: 8 if it was never set.

    Example:
        >>> get_ffmpeg_log_level()
        8
    """
    return native.ffmpeg_log_level()


def set_ffmpeg_log_level(val: int, /) -> None:
    """Have FFmpeg's log go to Python's logging, up to a level.

    The lines go to the logger ``spdl.io.ffmpeg``, whatever thread of the process logs them. FFmpeg's own threads log
    while a call is at work, so the lines are kept, and the calling thread passes them on when its call ends, or the
    next one to end does. At most 1,000 lines wait; of a longer flood the rest is counted in one warning. Nothing is
    ever printed past Python's logging. Errors that end a call are in its exception at any level.

    ===== ===================== ======================
    level FFmpeg's name         level in Python
    ===== ===================== ======================
    -8    quiet                 no lines
    0, 8  panic, fatal          ``CRITICAL``
    16    error                 ``ERROR``
    24    warning               ``WARNING``
    32    info                  ``INFO``
    40 on verbose, debug, trace ``DEBUG``
    ===== ===================== ======================

    Args:
        val: The highest level that is wanted, as FFmpeg numbers them: a higher number gives more lines. At first it is
            8, as in spdl 0.8.0, which is quiet: a damaged file logs at 16. The level is the process's.

    Raises:
        TypeError, ValueError: If `val` is not an int, or it is beyond 1,000 or -1,000.

    Example:
        >>> set_ffmpeg_log_level(24)  # Errors and warnings.
        >>> get_ffmpeg_log_level()
        24
        >>> set_ffmpeg_log_level(8)
    """
    level = check_int("val", val, least=-_HIGHEST, most=_HIGHEST)
    native.set_ffmpeg_log_level(level)
    native.deliver_ffmpeg_log()
    _deliver_at_exit()


@cache
def _deliver_at_exit() -> None:
    atexit.register(native.deliver_ffmpeg_log)


def write(level: int, line: str) -> None:
    """Write a line that FFmpeg has logged. Called by the native part."""
    python = next((python for ffmpeg, python in _LEVELS if level <= ffmpeg), logging.DEBUG)
    _LOG.log(python, "%s", line)


def write_lost(count: int) -> None:
    """Say that lines came faster than they were fetched. Called by the native part."""
    _LOG.warning("%d more lines of FFmpeg's log were dropped: a call of spdl.io logged over 1,000", count)
