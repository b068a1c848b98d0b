"""The base class of sources that can be told to stop waiting."""

from __future__ import annotations

__all__ = ["Interruptible"]


class Interruptible:
    """An iterator whose reader can be woken from another thread: that of a pipeline that feeds another."""

    __slots__ = ()

    def interrupt(self) -> None:
        """Have the thread in ``next()`` return at once. Needs no lock. What it waited for stays to be read."""
        raise NotImplementedError
