"""Objects whose last reference is dropped later, without the engine's lock, since their finalizers are the user's."""

from __future__ import annotations

import contextlib
from types import CoroutineType
from typing import Any

__all__ = ["DeferredDrops", "drop_all"]


class DeferredDrops(list[Any]):
    """Objects that were taken out of the engine under its lock. Whoever releases the lock next drops them."""

    __slots__ = ()

    def take(self) -> list[Any]:
        """Return the objects and forget them. Called with the lock held; the caller drops them without it."""
        taken = self.copy()
        self.clear()
        return taken


def drop_all(objects: list[Any]) -> None:
    """Empty a list of unwanted objects. Called without the engine's lock, since finalizers may run now."""
    for value in objects:
        # An op returned it to a stage that had ended meanwhile. Python would complain that it was never awaited.
        if type(value) is CoroutineType and not value.cr_running and not value.cr_suspended:
            # Another thread that has it may begin to run it at this very moment.
            with contextlib.suppress(Exception):
                value.close()
    objects.clear()
