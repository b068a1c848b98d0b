"""The items that pass through the pipelines of the programs."""

import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

# The number of its source, its position there, and the stages that it went through.
Key: TypeAlias = tuple[int, int, tuple[str, ...]]

# Called when an item is freed, as finalizers of the user's are.
_on_drop: Callable[[], None] = lambda: None  # noqa: E731 - a function that is replaced.


def watch_drops(look: Callable[[], None]) -> None:
    """Have ``look`` called whenever an item is freed."""
    global _on_drop  # noqa: PLW0603 - items have no place for it.
    _on_drop = look


def dropped() -> None:
    """Tell that an item is freed."""
    _on_drop()


_LIVE: "list[weakref.ref[Item]]" = []


class Item:
    """An item that knows where it comes from and which ops have worked on it. It compares by identity alone."""

    __slots__ = ("__weakref__", "epoch", "position", "sendable", "source", "trail", "watched")

    def __init__(self, source: int, position: int, epoch: int = 0, trail: tuple[str, ...] = ()) -> None:
        self.source = source
        self.position = position
        self.epoch = epoch
        self.trail = trail
        # Whether only the engine can let go of it. What was handed on may be freed wherever it was handed on.
        self.watched = not trail
        # Whether it can be sent to another process.
        self.sendable = True
        _LIVE.append(weakref.ref(self))

    @property
    def key(self) -> Key:
        return self.source, self.position, self.trail

    def child(self, step: str) -> "Item":
        """Return what an op makes of it."""
        return Item(self.source, self.position, self.epoch, (*self.trail, step))

    def copy(self) -> "Item":
        """Return another object for the same item."""
        copied = Item(self.source, self.position, self.epoch, self.trail)
        copied.watched = False
        copied.sendable = self.sendable
        return copied

    def __del__(self) -> None:
        if self.watched:
            dropped()

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.sendable:
            raise TypeError(f"{self!r} cannot be pickled")
        return Item, (self.source, self.position, self.epoch, self.trail)

    def __repr__(self) -> str:
        return f"<{self.source}:{self.position} epoch {self.epoch} {' '.join(self.trail)}>"


def forget_items() -> None:
    """Begin to count items anew."""
    _LIVE.clear()


def live_items() -> list[Item]:
    """Return the items made since `forget_items` that are still in memory."""
    return [item for item in (reference() for reference in list(_LIVE)) if item is not None]
