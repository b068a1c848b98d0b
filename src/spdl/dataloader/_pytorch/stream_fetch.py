"""Loads the batches of an iterable dataset, as one worker does."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .map_fetch import LoadingAbandoned
from .requests import is_stateful

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .positions import Position

__all__ = ["StreamFetch", "StreamOptions"]


class StreamOptions(NamedTuple):
    """How a loader batches an iterable dataset.

    Attributes:
        collate_fn: Makes a batch of a list of items, or converts one item if there are no batches.
        batch_size: Items in a batch. None yields the items themselves.
        drop_last: Whether a shorter last batch is dropped.
    """

    collate_fn: Callable[[Any], Any]
    batch_size: int | None
    drop_last: bool


class StreamFetch:
    """A function that returns the next batch and the state after it.

    Args:
        dataset: The worker's copy of the dataset.
        options: How to make batches.
        position: Where to begin. What lies before is restored if the dataset can do that; otherwise it is iterated
            over, and not collated. If that raises, the consumer was told so before.
        is_abandoned: Tells whether nobody waits any more. It is asked for each item, and then LoadingAbandoned raised.
    """

    def __init__(
        self, dataset: Any, options: StreamOptions, position: Position, is_abandoned: Callable[[], bool] = bool
    ) -> None:
        self._options = options
        self._dataset = dataset
        self._number = position.batches
        self._ended = False
        self._is_abandoned = is_abandoned
        if position.state is not None:
            self._iterator: Any = self._restored(position.state)
            return
        self._iterator = iter(dataset)
        for _ in range(position.batches):
            try:
                self._next_items()
            except StopIteration:
                # The dataset has become shorter, or was over after an exception.
                break
            except LoadingAbandoned:
                raise
            except Exception:  # noqa: BLE001, S112 - whatever it was, it is over.
                continue

    def _restored(self, state: Any) -> Iterator[Any]:
        kind, value = state
        if kind == "iterator":
            iterator: Any = iter(self._dataset)
            iterator.load_state_dict(copy.deepcopy(value))
            return cast("Iterator[Any]", iterator)
        if value is not None:
            self._dataset.load_state_dict(copy.deepcopy(value))
        # At its end, a dataset may be about to begin anew.
        return iter(()) if kind == "end" else iter(self._dataset)

    def __call__(self) -> tuple[Any, Any]:
        """Return the next batch and the state after it.

        Raises:
            StopIteration: If there are no more batches.
            Exception: That of the dataset or of ``collate_fn``. The next call goes on behind it.
        """
        number = self._number
        self._number += 1
        items = self._next_items()
        try:
            batch = self._options.collate_fn(items)
        except BaseException as error:
            error.add_note(f"`collate_fn` was called with batch {number} of the dataset.")
            raise
        return batch, self.state()

    def _next_items(self) -> Any:
        size = self._options.batch_size
        if self._ended:
            raise StopIteration
        if size is None:
            return next(self._iterator)
        items: list[Any] = []
        while len(items) < size and not self._ended:
            if self._is_abandoned():
                raise LoadingAbandoned
            try:
                items.append(next(self._iterator))
            except StopIteration:
                self._ended = True
        if not items or (self._options.drop_last and len(items) < size):
            raise StopIteration
        return items

    def state(self) -> Any:
        """Return what the dataset or its iterator says of itself now, also after an exception; None if nothing."""
        if self._ended:
            return ["end", copy.deepcopy(self._dataset.state_dict()) if is_stateful(self._dataset) else None]
        if is_stateful(self._iterator):
            return ["iterator", copy.deepcopy(self._iterator.state_dict())]
        if is_stateful(self._dataset):
            return ["dataset", copy.deepcopy(self._dataset.state_dict())]
        return None
