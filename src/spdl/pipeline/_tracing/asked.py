"""What a process does when `spdl record PID` asks it for a trace: a thread answers."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["answer"]

_LOG = logging.getLogger("spdl.pipeline")


_answering: threading.Thread | None = None


def answer(path: str) -> None:
    """Have a thread answer to whoever listens at a path, unless one does already. Called with an engine's lock held."""
    global _answering  # noqa: PLW0603
    # In a forked process it is not alive.
    if _answering is not None and _answering.is_alive():
        return
    thread = threading.Thread(target=_answer, args=(path,), name="spdl_record_thread", daemon=True)
    # The system may have no thread left, or the interpreter ends.
    with suppress(RuntimeError):
        thread.start()
        _answering = thread


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
