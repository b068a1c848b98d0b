"""How long a thread could run but had no core."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

__all__ = ["RunQueue"]


class RunQueue(threading.local):
    """The time that the calling thread waited for a core, as the system counts it.

    On a busy machine, a loop whose batch has arrived may have to wait for a core before it can take it. That is no
    waiting for data.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):  # Systems other than Linux do not say.
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def seconds(self) -> float:
        """Return the time so far. It is always 0 if the system does not say."""
        if self._file is not None:
            with suppress(OSError, ValueError):
                return int(os.pread(self._file, 64, 0).split()[1]) * 1e-9
        return 0.0
