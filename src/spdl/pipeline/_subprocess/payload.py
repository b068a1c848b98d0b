"""The work for a worker process, packed so that an error in unpickling it can be reported."""

from __future__ import annotations

import pickle
from typing import Any

from spdl.pipeline._nodes.executors.process_work import pack

__all__ = ["Payload"]


class Payload:
    """A value for a child process.

    A child that is not forked unpickles its arguments before any of our code runs. An error there goes to stderr and
    is lost. So the value travels as a pickle within the pickle, and `load` unpickles it.
    """

    def __init__(self, value: Any) -> None:
        self._value = value
        self._pickled: bytes | None = None

    @classmethod
    def of_pickle(cls, pickled: bytes) -> Payload:
        """Return the payload of a pickled value."""
        payload = cls(None)
        payload.__setstate__(pickled)
        return payload

    def __getstate__(self) -> bytes:
        return pack(self._value)

    def __setstate__(self, pickled: bytes) -> None:
        self._value = None
        self._pickled = pickled

    def load(self) -> Any:
        """Return the value and forget it, so that it can end before its process. Unpickling may run any code."""
        value, pickled, self._value, self._pickled = self._value, self._pickled, None, None
        return value if pickled is None else pickle.loads(pickled)  # noqa: S301 - from our own parent process.
