"""Ends a process soon after its parent has ended, whatever it is doing."""

from __future__ import annotations

import os
import time
from multiprocessing import parent_process
from select import poll
from threading import Thread

__all__ = ["end_with", "open_process"]


def open_process(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, or None if the system has none.

    Multiprocessing uses pipes for this, but they stay open in every process that was forked since.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # It has ended, or the system does not allow it.
        return None


def end_with(pid: int, *pipes: int, grace: float) -> None:
    """End this process when its parent has ended.

    Args:
        pid: The parent's process ID.
        *pipes: Pipes from the parent, whose other ends close when it ends.
        grace: Seconds that this process then has to end by itself.
    """
    signs = poll()
    for pipe in pipes:
        # No event is asked for: poll always reports that the other end was closed.
        signs.register(pipe, 0)
    parent = parent_process()
    if parent is not None:
        signs.register(parent.sentinel)
    descriptor = open_process(pid)
    if descriptor is not None:
        signs.register(descriptor)

    def watch() -> None:
        signs.poll()
        time.sleep(grace)
        # There is nobody to report to, and a thread can end its process in no other way.
        os._exit(1)

    Thread(target=watch, name="spdl_parent_watcher", daemon=True).start()
