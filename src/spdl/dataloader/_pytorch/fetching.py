"""Loads the batches of a dataset: fetched, collated, pinned."""

from __future__ import annotations

import copy
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch.utils.data._utils.collate import collate, collate_numpy_array_fn, default_collate, default_collate_fn_map
from torch.utils.data._utils.pin_memory import pin_memory

from spdl._check import show

if TYPE_CHECKING:
    from spdl.dataloader._pytorch.state import Position


class BatchRequest(NamedTuple):
    number: int
    index: Any


# Numbers and texts, which never change.
_FIXED = {int, str, float, bool, type(None)}


def own_copy(index: Any) -> Any:
    """Return indices for one worker alone, which may change them.

    Tensors are not copied: worker processes share their memory, too. TypeError if something cannot be copied, and so
    could not be sent to a process either.
    """
    if type(index) in _FIXED:
        return index
    if type(index) is list and _FIXED.issuperset(map(type, index)):
        return index.copy()
    parts = index if isinstance(index, (list, tuple)) else [index]
    return copy.deepcopy(index, {id(it): it for it in parts if isinstance(it, torch.Tensor)})


class BatchOutcome(NamedTuple):
    number: int
    batch: Any
    error: BaseException | None


def is_stateful(part: object) -> bool:
    return callable(getattr(part, "state_dict", None)) and callable(getattr(part, "load_state_dict", None))


# Arrays of more bytes are left to PyTorch: it copies them once, and here they are copied twice.
_MOST_BYTES = 1 << 14


def in_this_process(collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what makes the same batches without a process in between: PyTorch's default collation is replaced."""
    return _collate if collate_fn is default_collate else collate_fn


def _collate(items: Any) -> Any:
    # Users may change the map at any time.
    functions = {**default_collate_fn_map}
    if functions.get(np.ndarray) is collate_numpy_array_fn:
        functions[np.ndarray] = _collate_arrays
    return collate(items, collate_fn_map=functions)


def _collate_arrays(arrays: Any, *, collate_fn_map: Any = None) -> Any:
    """Return a tensor of arrays, without one for each of them: PyTorch gives up the GIL each time, and waits for it."""
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    alike = 0 < first.nbytes <= _MOST_BYTES and dtype.kind in "biufc"
    alike = alike and all(
        type(it) is np.ndarray and it.shape == shape and it.dtype == dtype and it.flags.c_contiguous for it in arrays
    )
    # PyTorch decides on the type and the device, and refuses what it refuses.
    one = torch.as_tensor(first) if alike else None
    if one is None or one.device.type != "cpu":
        return collate_numpy_array_fn(arrays, collate_fn_map=collate_fn_map)
    batch = one.new_empty((len(arrays), *shape))
    # A tensor whose memory numpy has seen could not be made larger any more.
    ctypes.memmove(batch.data_ptr(), b"".join(arrays), first.nbytes * len(arrays))
    return batch


class Pinning:
    """A function that pins the tensors of a batch, in any thread, for the device that is current here."""

    def __init__(self, device: str | None) -> None:
        self._device = device
        self._index = _current_index()
        self._here = _ThreadDevice()

    @classmethod
    def of(cls, iterator: Any) -> Callable[[Any], Any]:
        return cls(iterator._pin_memory_device) if iterator._pin_memory else as_it_is  # noqa: SLF001 - torch's names.

    def __call__(self, batch: Any) -> Any:
        self._here.choose(self._index)
        return pin_memory(batch, self._device)


class _ThreadDevice(threading.local):
    """Which device this thread was told to use. A thread begins with the first one, and would take memory of it."""

    told: int | None = None

    def choose(self, index: int) -> None:
        if self.told != index:
            _choose_index(index)
            self.told = index


def _current_index() -> int:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return int(torch.cuda.current_device())
    # The name changed with torch 2.9.
    get = getattr(accelerator, "current_device_index", None) or accelerator.current_device_idx
    return int(get())


def _choose_index(index: int) -> None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        torch.cuda.set_device(index)
        return
    choose = getattr(accelerator, "set_device_index", None) or accelerator.set_device_idx
    choose(index)


def as_it_is(batch: Any) -> Any:
    return batch


class LoadingAbandoned(Exception):  # noqa: N818 - a situation, not an error.
    """Raised between two items of a batch that is not wanted any more. It is never shown."""


class MapFetch:
    """A function that loads the items of a batch and collates them. If not ``batched``, it converts one item."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], *, batched: bool) -> None:
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._batched = batched
        self._abandoned = False

    def abandon(self) -> None:
        """Stop the threads that load between two items, with LoadingAbandoned."""
        self._abandoned = True

    def resume(self) -> None:
        self._abandoned = False

    def __call__(self, index: Any) -> Any:
        """Return the batch. An exception of the dataset or of ``collate_fn`` passes, with a note on the index.

        RuntimeError instead of StopIteration, which would end the consumer's loop as if there were no more.
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


class StreamOptions(NamedTuple):
    """How a loader batches an iterable dataset. Without a ``batch_size`` it yields the converted items themselves."""

    collate_fn: Callable[[Any], Any]
    batch_size: int | None
    drop_last: bool


class StreamFetch:
    """A function that returns the next batch of a worker's copy of a dataset, and the state after it.

    A dataset with a state is restored at the position; any other is iterated up to it, without collating. If that
    raises, the consumer has seen the error before. `is_abandoned` is called for each item.
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
        # At its end, a dataset may begin again.
        return iter(()) if kind == "end" else iter(self._dataset)

    def __call__(self) -> tuple[Any, Any]:
        """Return the next batch and the state after it. After an exception, the next call continues."""
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
        """Return the state of the dataset or its iterator now, also after an exception; None if there is none."""
        if self._ended:
            return ["end", copy.deepcopy(self._dataset.state_dict()) if is_stateful(self._dataset) else None]
        if is_stateful(self._iterator):
            return ["iterator", copy.deepcopy(self._iterator.state_dict())]
        if is_stateful(self._dataset):
            return ["dataset", copy.deepcopy(self._dataset.state_dict())]
        return None
