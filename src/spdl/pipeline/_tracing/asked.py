"""What a process does when `spdl record PID` asks it for a trace: a thread answers."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from pathlib import Path

from spdl._forks import renew_in_children

__all__ = ["answer"]

_LOG = logging.getLogger("spdl.pipeline")


class _Answering:
    """Whether a thread answers. There is none of it in a forked process."""

    def __init__(self) -> None:
        self._renew()
        renew_in_children(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def begins(self) -> bool:
        """Return whether a thread is to begin, which calls `ends`."""
        return self._lock.acquire(blocking=False)

    def ends(self) -> None:
        """Note that it has ended."""
        self._lock.release()


_ANSWERING = _Answering()


def answer(path: str) -> None:
    """Have a thread answer to whoever listens at a path, unless it does already. Called with an engine's lock held."""
    if not _ANSWERING.begins():
        return
    try:
        threading.Thread(target=_answer, args=(path,), name="spdl_record_thread", daemon=True).start()
    except BaseException as error:
        _ANSWERING.ends()
        # The system has no thread left, or the interpreter ends.
        if not isinstance(error, RuntimeError):
            raise


def _answer(path: str) -> None:
    try:
        from spdl.observe._trace.answer import answer as record_and_send  # noqa: PLC0415 - rarely needed.

        record_and_send(path)
    except Exception as error:  # noqa: BLE001 - the program must neither show it nor end for it.
        # The package may have been replaced by another version since the program began.
        _LOG.warning("The pipelines could not be recorded: %r", error)
        # Else this would be tried again a hundred times a second. Whoever asks sees it.
        with suppress(OSError):
            Path(path).unlink()
    finally:
        _ANSWERING.ends()
