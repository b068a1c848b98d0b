"""Where a thread of another process is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Frame", "NoStacksError", "ThreadStack", "without_engine"]

# Where the pipeline's own frames are, and those that begin each thread of Python.
_ENGINE = "/spdl/pipeline/_"
_BEGINS = "threading.py"


class NoStacksError(Exception):
    """Raised if stacks cannot be had in some way. The message says why, and how they could be."""


class Frame(NamedTuple):
    """A call that goes on.

    Attributes:
        function: The function.
        file: The file that has it.
        line: The line; 0 if it is not known.
    """

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """The calls of a thread.

    Attributes:
        thread: Its number in the system; 0 if it is not known.
        identity: What ``threading.get_ident()`` returns in it; 0 if it is not known.
        name: Its name; empty if it is not known.
        frames: The calls, the innermost first.
    """

    thread: int
    identity: int
    name: str
    frames: tuple[Frame, ...]


def without_engine(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the calls without the outermost ones, which the engine makes to run an op."""
    end = len(frames)
    while end and (_ENGINE in frames[end - 1].file or frames[end - 1].file.endswith(_BEGINS)):
        end -= 1
    return frames[:end]
