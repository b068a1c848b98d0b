"""Hooks of processes: calls in a process forked from this one, and calls before a process of multiprocessing ends."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.


class _Renewable(Protocol):
    def _renew(self) -> None: ...


_ALL: weakref.WeakSet[_Renewable] = weakref.WeakSet()


def renew_in_children(renewable: _Renewable) -> None:
    """Have ``_renew`` called in each process forked from this one, before anything else runs there.

    Other threads may have held locks at that moment, and no longer exist. So it must take no lock, and make all again.
    """
    _ALL.add(renewable)


class RenewedLock:
    """A lock that is free in a forked process and in a copy of its owner, even if it is held here."""

    def __init__(self) -> None:
        self._renew()
        renew_in_children(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return RenewedLock, ()


def _renew_all() -> None:
    for each in list(_ALL):
        each._renew()  # noqa: SLF001 - for this module alone.


os.register_at_fork(after_in_child=_renew_all)

_FORKS: list[int] = []
os.register_at_fork(after_in_child=lambda: _FORKS.append(os.getpid()))


def was_forked() -> bool:
    """Return whether this process was forked: it may have its parent's fork server, which starts nothing for it."""
    return bool(_FORKS)


# The order: first the loops that feed pipelines, then the pipelines, then their workers, then the traces.
# Those of multiprocessing's own queues have 10 or less, and children are awaited after all of 0 or more.
LOOPS, PIPELINES, WORKERS, TRACES = 400, 300, 200, 100

_KNOWN: dict[Callable[[], object], int] = {}


def before_children_are_awaited(function: Callable[[], object], order: int) -> None:
    """Call a function before this process waits for its children, once, however often it is registered.

    To be called where something begins that has to be ended, beside an `atexit.register` where the module is imported.
    It does nothing in processes that multiprocessing has not started.

    Args:
        function: The function. `atexit` may call it a second time.
        order: `LOOPS`, `PIPELINES`, `WORKERS` or `TRACES`: the higher comes first.
    """
    module = sys.modules.get("multiprocessing.process")
    if module is None or module.parent_process() is None or _KNOWN.get(function) == os.getpid():
        return
    from multiprocessing.util import Finalize  # noqa: PLC0415 - the process has imported it.

    _KNOWN[function] = os.getpid()
    Finalize(None, function, exitpriority=order)
