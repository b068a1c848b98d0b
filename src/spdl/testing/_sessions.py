"""Runs of a loader that are cut somewhere."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Epochs", "Loader", "Make", "Reader", "open_reader"]

# The items of each epoch.
Epochs: TypeAlias = list[list[Any]]


class Loader(Protocol):
    """What can be resumed: a `Pipeline`, a `DataLoader`, or anything with the same three methods."""

    def __iter__(self) -> Iterator[Any]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> None: ...


Make: TypeAlias = "Callable[[], Loader]"


class Reader:
    """Reads a loader step by step. The end of an epoch is a step as well."""

    def __init__(self, loader: Loader, epochs: int, before: int) -> None:
        self.loader = loader
        # Of each epoch that was begun, what came; and how many epochs have ended, those of earlier runs included.
        self.got: Epochs = [[]]
        self.ended = before
        self._epochs = epochs
        self._items: Iterator[Any] | None = None

    def step(self) -> bool:
        """Take one item, or see the end of an epoch. Return False if all epochs have ended."""
        if self.ended == self._epochs:
            return False
        if self._items is None:
            self._items = iter(self.loader)
        for item in islice(self._items, 1):
            self.got[-1].append(item)
            return True
        self._items = None
        self.ended += 1
        self.got.append([])
        return True

    def read(self, steps: int | None = None) -> int:
        """Take so many steps, or all. Return how many there were."""
        taken = 0
        while (steps is None or taken < steps) and self.step():
            taken += 1
        return taken

    def state(self) -> dict[str, Any]:
        """Return the loader's state as a checkpoint on disk brings it back."""
        state: dict[str, Any] = json.loads(json.dumps(self.loader.state_dict()))
        return state

    def close(self) -> None:
        """Leave the iteration."""
        close = getattr(self._items, "close", None)
        self._items = None
        if close is not None:
            close()


@contextmanager
def open_reader(make: Make, epochs: int, *, state: Any = None, before: int = 0) -> Iterator[Reader]:
    """Make a loader, load a state if there is one, and read it.

    Args:
        make: Makes the loader.
        epochs: How many epochs are read, those of earlier runs included.
        state: The state.
        before: How many epochs have ended in earlier runs.
    """
    loader = make()
    if state is not None:
        loader.load_state_dict(state)
    running: AbstractContextManager[Any] = nullcontext()
    if hasattr(loader, "auto_stop"):
        running = loader.auto_stop()
    with running:
        reader = Reader(loader, epochs, before)
        try:
            yield reader
        finally:
            reader.close()
