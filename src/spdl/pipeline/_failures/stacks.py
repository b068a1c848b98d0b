"""The stacks of threads, in words."""

from __future__ import annotations

import sys
import traceback

__all__ = ["stack_of"]

_FRAMES_SHOWN = 5


def stack_of(thread: int | None) -> str:
    """Return where a thread is, as the end of a sentence; nothing if it is none."""
    frame = None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001 - the documented way.
    if frame is None:
        return ""
    return f" It is here:\n{''.join(traceback.format_stack(frame)[-_FRAMES_SHOWN:]).rstrip()}"
