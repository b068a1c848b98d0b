"""Loads the batches of a map-style dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._check import show

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LoadingAbandoned", "MapFetch"]


class LoadingAbandoned(Exception):  # noqa: N818 - a situation, not an error.
    """Raised between two items of a batch that nobody waits for any more. Nobody sees it."""


class MapFetch:
    """A function that loads the items of a batch and collates them.

    Args:
        dataset: The dataset.
        collate_fn: Makes a batch of a list of items, or converts one item if there are no batches.
        batched: Whether indices come in batches.
    """

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], *, batched: bool) -> None:
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._batched = batched
        self._abandoned = False

    def abandon(self) -> None:
        """Have the threads that load stop between two items, with LoadingAbandoned."""
        self._abandoned = True

    def resume(self) -> None:
        """Load again."""
        self._abandoned = False

    def __call__(self, index: Any) -> Any:
        """Return the batch. An exception of the dataset or of ``collate_fn`` passes, with a note on the index.

        Raises:
            RuntimeError: Instead of StopIteration, which would end the consumer's loop as if there were no more.
        """
        if self._abandoned:
            raise LoadingAbandoned
        try:
            return self._collate(self._load_items(index) if self._batched else self._load_item(index), index)
        except StopIteration as error:
            raise RuntimeError(
                f"The dataset or `collate_fn` raised StopIteration for {show(index)}, which would end the loop early "
                "and in silence. Raise IndexError or another exception."
            ) from error

    def _load_items(self, indices: Any) -> Any:
        dataset = self._dataset
        load_all = getattr(dataset, "__getitems__", None)
        if load_all:
            try:
                return load_all(indices)
            except BaseException as error:
                error.add_note(f"The dataset's `__getitems__` was called with {show(indices)}.")
                raise
        items = []
        index: Any = None
        try:
            for index in indices:
                if self._abandoned:
                    raise LoadingAbandoned  # noqa: TRY301 - a call for each item would take longer than some items.
                items.append(dataset[index])
        except BaseException as error:
            error.add_note(f"The item was the dataset's number {show(index)}, in the batch {show(indices)}.")
            raise
        return items

    def _load_item(self, index: Any) -> Any:
        try:
            return self._dataset[index]
        except BaseException as error:
            error.add_note(f"The item was the dataset's number {show(index)}.")
            raise

    def _collate(self, items: Any, index: Any) -> Any:
        try:
            return self._collate_fn(items)
        except BaseException as error:
            error.add_note(f"`collate_fn` was called with the dataset's {show(index)}.")
            raise
