"""How much memory a function takes from the system, measured by the system."""

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
    """Return how many bytes of fresh memory a call touches, of those that it allocates in blocks of 16 KiB or more.

    Such blocks are made to come from the system each, and to go back when they are freed, as they would if malloc kept
    nothing. The system provides a page when it is first written to and counts that, so the number of pages is what was
    allocated and written, whoever did it: Python, Pillow, PyTorch, FFmpeg. What a library keeps and uses again counts
    once, in a first call that is not measured. Results are kept until the end. This changes the process for good, so
    call it in one of its own.

    Args:
        function: What is measured.
        times: How often it is called.

    Raises:
        OSError: If this is not Linux with glibc, whose means it takes.
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
