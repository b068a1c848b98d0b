"""The measurements of this process, in a file that `spdl advise` reads."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RecordFile"]

# A process that is killed loses the measurements of this many seconds.
_SECONDS = 1.0


class RecordFile:
    """A file that holds what a function returns, as JSON, and is replaced from time to time.

    Args:
        name: The name of the file, in the folder that `SPDL_ADVISE` names.
        contents: Returns what the file is to hold.
    """

    def __init__(self, name: str, contents: Callable[[], dict[str, Any]]) -> None:
        self._path = os.path.join(os.environ["SPDL_ADVISE"], name)  # noqa: PTH118 - pathlib is not imported otherwise.
        self._contents = contents
        self._pid = os.getpid()
        self._written_at = perf_counter()

    def write_when_due(self, now: float) -> None:
        """Write the file if that was not done lately.

        Args:
            now: The present, by `time.perf_counter`.
        """
        if now - self._written_at > _SECONDS:
            self._written_at = now
            self.write()

    def write(self) -> None:
        """Replace the file. A forked copy of the process leaves it alone."""
        if os.getpid() != self._pid:
            return
        made = f"{self._path}.making"
        with suppress(OSError):  # A full disk must not end the job.
            with open(made, "w", encoding="utf-8") as file:  # noqa: PTH123
                # In one piece, which is written in C.
                file.write(json.dumps(self._contents()))
            os.replace(made, self._path)  # noqa: PTH105
