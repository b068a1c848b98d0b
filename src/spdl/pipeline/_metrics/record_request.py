"""How another process asks this one for a trace: a socket in the folder of the pages, on which it listens."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .page_folder import page_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["REQUEST", "RequestWatch", "answer_by", "is_left", "request_path"]

REQUEST = ".record"


def request_path(pid: int, started_ticks: int, namespace: int, folder: Path | None = None) -> Path:
    """Return where a process is asked for a trace. Containers that share the folder may have the same numbers."""
    return (page_folder() if folder is None else folder) / f"{pid}-{started_ticks}-{namespace}{REQUEST}"


def is_left(path: Path) -> bool:
    """Return whether whoever has asked there was killed: nobody listens."""
    import socket  # noqa: PLC0415 - rarely needed, and large.

    with socket.socket(socket.AF_UNIX) as probe:
        # Where many wait already, somebody listens.
        probe.settimeout(0.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return not os.path.lexists(path)
    return False


class _Answer:
    function: Callable[[str], None] | None = None


_ANSWER = _Answer()


def answer_by(function: Callable[[str], None]) -> None:
    """Have a function called, with the path, as long as this process is asked. It is called often, and under a lock."""
    _ANSWER.function = function


class RequestWatch:
    """Looks whether this process is asked.

    Args:
        path: Where it would be.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def look(self) -> None:
        """Look once. It takes a microsecond or two, and is done where the counters are written, not for each item."""
        if os.access(self._path, os.F_OK) and (answer := _ANSWER.function) is not None:
            answer(self._path)
