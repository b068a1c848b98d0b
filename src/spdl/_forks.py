"""What is done in a process that was forked from this one."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Protocol

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["RenewedLock", "renew_in_children"]


class _Renewable(Protocol):
    def _renew(self) -> None: ...


_ALL: weakref.WeakSet[_Renewable] = weakref.WeakSet()


def renew_in_children(renewable: _Renewable) -> None:
    """Have ``_renew`` called in each process forked from this one, before anything else runs there.

    Other threads may have held locks at that moment, and exist no more. So it must take none, and make all anew.
    """
    _ALL.add(renewable)


class RenewedLock:
    """A lock that nobody holds in a forked process, or in a copy of its owner, whoever holds it here."""

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
