"""Objects whose last reference is dropped later, without the engine's lock, since their finalizers are the user's."""

from __future__ import annotations

import contextlib
from types import CoroutineType, GeneratorType
from typing import Any

from spdl.pipeline._failures.error_text import log_error

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
        elif type(value) is GeneratorType and not value.gi_running:
            _close(value)
    objects.clear()


def _close(generator: GeneratorType[Any, Any, Any]) -> None:
    """Close a generator that has more results, of which none is wanted. What it raises is logged.

    Dropping it would do the same with a GIL. Without one, a generator that another thread made, which may be asleep,
    would live on.
    """
    try:
        generator.close()
    except BaseException as error:  # noqa: BLE001 - its item's fate is settled.
        log_error(error, "%s raised when it was closed", generator.__qualname__)
