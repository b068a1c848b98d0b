"""The name by which the system knows the thread of a region, so that other processes find it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from spdl.pipeline._world import get_native_id

__all__ = ["name_this_thread", "region_thread_name"]

# The system keeps so many characters.
_MOST = 15


def region_thread_name(pipeline: int, column: int) -> str:
    """Return the name of the thread that takes results out of a region's workers.

    Args:
        pipeline: The pipeline's number in the process.
        column: The region's column on the page.
    """
    return f"spdl_r{column}_{pipeline}"[:_MOST]


def name_this_thread(name: str) -> None:
    """Have the system call the current thread that, where it can."""
    with suppress(OSError):
        Path(f"/proc/self/task/{get_native_id()}/comm").write_text(name)
