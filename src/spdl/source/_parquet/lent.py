"""What pyarrow's own threads may still hold, so that the interpreter does not end before they let it go."""

from __future__ import annotations

import atexit
import threading
import time
import weakref

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["lend", "take_back_at_exit"]

_SECONDS = 2.0
_NAP = 0.0005

# By the numbers of the references: their hash would be that of the content.
_lent: dict[int, weakref.ref[memoryview]] = {}
_returned: list[weakref.ref[memoryview]] = []


_ending = threading.Event()
"""Set when the interpreter is about to end."""


def lend(view: memoryview) -> memoryview:
    """Return a view of memory that is given to pyarrow, after noting it.

    A task of pyarrow's threads gives its result away before it lets go what it has used, and to let go something of
    Python it takes the GIL. If the interpreter ends meanwhile, CPython ends the thread, in the midst of a destructor:
    "terminate called without an active exception", and the process is aborted.
    """
    # A method of C, and so what is returned is counted without another turn of the interpreter in that thread.
    reference = weakref.ref(view, _returned.append)
    _lent[id(reference)] = reference
    _settle()
    return view


def take_back_at_exit() -> None:
    """Wait for what was lent, if the interpreter is about to end: called by whoever has lent views and is done."""
    if _ending.is_set():
        _take_back()


def _settle() -> None:
    while _returned:
        try:
            reference = _returned.pop()
        except IndexError:  # Another thread was here first.
            return
        _lent.pop(id(reference), None)


def _take_back() -> None:
    deadline = time.monotonic() + _SECONDS
    _settle()
    while _lent and time.monotonic() < deadline:
        time.sleep(_NAP)
        _settle()


def _end() -> None:
    # Threads of pipelines may go on to read until their own turn comes.
    _ending.set()
    _take_back()


atexit.register(_end)
