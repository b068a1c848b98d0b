"""Letting go of what is the user's: sources, ops, hooks, executors and failures, once they are no longer needed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import CoroutineType, GeneratorType
from typing import Any, Protocol

from spdl.pipeline._report.failures import log_error
from spdl.pipeline._world import RLock


class DeferredDrops(list[Any]):
    """Objects that were taken out of the engine under its lock. The thread that releases the lock next drops them."""

    def take(self) -> list[Any]:
        """Return the objects and forget them. Called with the lock held; the caller drops them without it."""
        taken = self.copy()
        self.clear()
        return taken


def drop_all(objects: list[Any]) -> None:
    """Empty a list of unwanted objects. Called without the engine's lock, since finalizers may run now."""
    for value in objects:
        # An op returned it to a stage that had ended in the meantime. Python would complain that it was never awaited.
        if type(value) is CoroutineType and not value.cr_running and not value.cr_suspended:
            # Another thread that has it may begin to run it at this very moment.
            with contextlib.suppress(Exception):
                value.close()
        elif type(value) is GeneratorType and not value.gi_running:
            _close(value)
    objects.clear()


def _close(generator: GeneratorType[Any, Any, Any]) -> None:
    """Close a generator whose other results are not wanted. An exception from it is logged.

    Dropping it would do the same with a GIL. Without one, a generator that another thread made, which may be asleep,
    would live on.
    """
    try:
        generator.close()
    except BaseException as error:  # noqa: BLE001 - its item's fate is settled.
        log_error(error, "%s raised when it was closed", generator.__qualname__)


class Holder(Protocol):
    """A part of the engine that holds user objects."""

    def let_go(self) -> list[Any]:
        """Return the user's objects, and forget them. Called with the lock held, when nothing runs any more."""


class LettingGo:
    """Counts the threads that may need the user's objects, and lets go of these after the last. Guarded by the lock.

    The engine's parts refer to each other, so only the cyclic collector would free them, and with them the source and
    the ops, which may keep processes or files. ``needed`` tells whether code outside these threads needs the objects.
    """

    def __init__(self, lock: RLock, drops: DeferredDrops, *, needed: Callable[[], bool]) -> None:
        self._lock = lock
        self._drops = drops
        self._needed = needed
        # How many threads there are that have not ended, or are about to begin. One that starts the others counts.
        self._threads = 0
        self._holders: list[Holder] = []

    def add(self, *holders: Holder) -> None:
        """Have more parts let go at the end, before those that were added earlier."""
        self._holders[:0] = holders

    def thread_begins(self) -> None:
        """Note that a thread begins, which may need the source and the ops. Called with the lock held."""
        self._threads += 1

    def thread_ends(self) -> None:
        """Note that a thread ends; the last one lets go. Called with the lock held, which it releases."""
        dropped = self._one_less()
        self._lock.release()
        drop_all(dropped)

    def call_ends(self) -> list[Any]:
        """Note that a call in a user's executor has ended, which may have outlasted all threads.

        Called with the lock held. Returns what should be dropped without it.
        """
        unneeded = self.take_unneeded()
        if not unneeded:
            # The thread that waits for what comes of the call drops the rest.
            return []
        self._drops.extend(unneeded)
        return self._drops.take()

    def start_ends(self) -> None:
        """Note that the start is over. Called without the lock, by a thread that a Ctrl-C may interrupt."""
        with self._lock:
            dropped = self._one_less()
        drop_all(dropped)

    def _one_less(self) -> list[Any]:
        """Note that a thread ends; return what should be dropped without the lock. Called with the lock held."""
        self._threads -= 1
        self._drops.extend(self.take_unneeded())
        return self._drops.take()

    def take_unneeded(self) -> list[Any]:
        """Return the user's objects, and forget them, if nothing runs any more. Called with the lock held."""
        if self._threads or self._needed():
            return []
        return [each for holder in self._holders for each in holder.let_go()]
