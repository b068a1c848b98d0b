"""What a worker process is given to do, in a form that lets it say what was wrong with it."""

from __future__ import annotations

import pickle
from typing import Any

from spdl.pipeline._nodes.executors.process_work import pack

__all__ = ["Payload"]


class Payload:
    """A value for a child process.

    A child that is not forked unpickles its arguments before anything of ours runs; what fails there goes to stderr
    and is lost. So the value travels as a pickle within the pickle, and is made anew by `load`.
    """

    def __init__(self, value: Any) -> None:
        self._value = value
        self._pickled: bytes | None = None

    def __getstate__(self) -> bytes:
        return pack(self._value)

    def __setstate__(self, pickled: bytes) -> None:
        self._value = None
        self._pickled = pickled

    def load(self) -> Any:
        """The value, once: it must not live as long as its process. Runs what unpickling calls."""
        value, pickled, self._value, self._pickled = self._value, self._pickled, None, None
        return value if pickled is None else pickle.loads(pickled)  # noqa: S301 - from our own parent process.
