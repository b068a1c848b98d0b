"""What is done in a process that was forked from this one."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["renew_in_children"]


class _Renewable(Protocol):
    def _renew(self) -> None: ...


_ALL: weakref.WeakSet[_Renewable] = weakref.WeakSet()


def renew_in_children(renewable: _Renewable) -> None:
    """Have ``_renew`` called in each process forked from this one, before anything else runs there.

    Other threads may have held locks at that moment, and exist no more. So it must take none, and make all anew.
    """
    _ALL.add(renewable)


def _renew_all() -> None:
    for each in list(_ALL):
        each._renew()  # noqa: SLF001 - for this module alone.


os.register_at_fork(after_in_child=_renew_all)
