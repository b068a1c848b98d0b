"""Measure how much memory a function takes from the system, as the system counts it."""

from __future__ import annotations

import ctypes
import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

M_MMAP_THRESHOLD = -3  # <malloc.h>
PR_SET_THP_DISABLE = 41  # <linux/prctl.h>
LARGE = 16 * 1024


def measure_fresh_memory(function: Callable[[], object], times: int) -> float:
    """Return how many bytes of fresh memory a call touches, counting only blocks of 16 KiB or more.

    Each such block is made to come from the system, and to go back when it is freed, as if malloc kept nothing. The
    system provides a page when it is first written to, and counts it. The number of pages therefore tells how much was
    allocated and written, whichever library did it: Python, Pillow, PyTorch, FFmpeg. Memory that a library keeps and
    reuses counts once, in a first call that is not measured. Results are kept until the end. This changes the process
    for good, so call it in a separate process.

    Args:
        function: The function to measure.
        times: How often to call it.

    Raises:
        OSError: If this is not Linux with glibc, which it depends on.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "prctl"):
        raise OSError("measuring fresh memory needs Linux with glibc")
    if libc.mallopt(M_MMAP_THRESHOLD, LARGE) != 1 or libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError("the system refuses to hand out memory page by page")
    kept = [function()]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    kept += [function() for _ in range(times)]
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return pages * resource.getpagesize() / times
