"""Test what is left of an interpreter that could not be started. A fake stands for it, so every Python can run this."""

from __future__ import annotations

import os
from errno import EMFILE
from typing import Any

import pytest

from spdl.pipeline._transport import interpreter as module
from spdl.pipeline._transport.interpreter import RunningInterpreter


class Fake:
    """An interpreter that only knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def prepare_main(self, **_: Any) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class CannotStart:
    """A thread that the system has no room for."""

    def __init__(self, **_: Any) -> None:
        pass

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def no_pipe() -> Any:
    raise OSError(EMFILE, os.strerror(EMFILE))


@pytest.mark.parametrize("missing", ["pipe", "thread"])
def test_nothing_is_left_of_one_that_could_not_be_started(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Fake()
    ends: list[int] = []
    pipe = os.pipe

    def noted_pipe() -> tuple[int, int]:
        ends.extend(pipe())
        return ends[0], ends[1]

    monkeypatch.setattr(os, "pipe", no_pipe if missing == "pipe" else noted_pipe)
    if missing == "thread":
        monkeypatch.setattr(module, "Thread", CannotStart)
    with pytest.raises(OSError if missing == "pipe" else RuntimeError):
        RunningInterpreter(lambda: made, "", {}, [])
    assert made.closed
    assert len(ends) == (2 if missing == "thread" else 0)
    for end in ends:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)
