"""What runs in a worker process."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from torch._utils import ExceptionWrapper
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils import worker as torch_worker

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .map_fetch import MapFetch
from .pickled_once import PickledOnce
from .stream_fetch import StreamFetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .positions import Position
    from .requests import Request
    from .stream_fetch import StreamOptions

__all__ = ["Delivery", "StartWorker", "WorkerDataset", "WorkerStream", "take_as_it_is"]


class Delivery(NamedTuple):
    """A batch on its way to the consumer's process.

    Attributes:
        source: The number of the batch, or the number of the worker of an iterable dataset.
        batch: The batch, unless there is a failure.
        state: What an iterable dataset says of itself after the batch, or after the failure.
        failure: The exception that loading ended in, as torch sends it, or None.
    """

    source: int
    batch: Any
    state: Any
    failure: Any

    def pin_memory(self, device: str | None = None) -> Delivery:
        """Return it with a pinned batch. torch calls this."""
        from torch.utils.data._utils.pin_memory import pin_memory  # noqa: PLC0415 - only where there is a device.

        return self._replace(batch=pin_memory(self.batch, device))


def take_as_it_is(delivery: Delivery) -> Delivery:
    """Return a delivery, which was collated already. It is the ``collate_fn`` that torch calls."""
    return delivery


def _failure() -> Any:
    return ExceptionWrapper(where=f"in DataLoader worker process {_worker_id()}")


def _worker_id() -> int:
    info = get_worker_info()
    assert info is not None
    return int(info.id)


class WorkerDataset:
    """What torch takes for a map-style dataset: looks up requests and returns deliveries.

    Args:
        dataset: The dataset, or its pickle.
        collate_fn: Makes a batch.
        batched: Whether requests are for batches.
    """

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], *, batched: bool) -> None:
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._batched = batched
        self._fetch: MapFetch | None = None

    def open(self) -> Any:
        """Return the dataset. It is unpickled now, if it was pickled once for all workers."""
        dataset = self._dataset.load() if isinstance(self._dataset, PickledOnce) else self._dataset
        self._fetch = MapFetch(dataset, self._collate_fn, batched=self._batched)
        return dataset

    def __getitem__(self, request: Request) -> Delivery:
        assert self._fetch is not None
        try:
            return Delivery(request.number, self._fetch(request.index), None, None)
        except Exception:  # noqa: BLE001 - it is raised where the batch is wanted.
            return Delivery(request.number, None, None, _failure())


class WorkerStream(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """What torch takes for an iterable dataset: yields deliveries.

    Args:
        dataset: The dataset.
        options: How to make batches.
        positions: Where the workers begin.
    """

    def __init__(self, dataset: Any, options: StreamOptions, positions: Sequence[Position]) -> None:
        self._dataset = dataset
        self._options = options
        self._positions = positions

    def open(self) -> Any:
        """Return the dataset."""
        return self._dataset

    def __iter__(self) -> Iterator[Delivery]:
        worker = _worker_id()
        fetch = StreamFetch(self._dataset, self._options, self._positions[worker])
        # An epoch that persistent workers go on with begins at the beginning.
        self._positions = [type(it)(0, None) for it in self._positions]
        return _Deliveries(worker, fetch)

    def __repr__(self) -> str:
        return repr(self._dataset)


class _Deliveries:
    def __init__(self, worker: int, fetch: StreamFetch) -> None:
        self._worker = worker
        self._fetch = fetch

    def __iter__(self) -> _Deliveries:
        return self

    def __next__(self) -> Delivery:
        try:
            batch, state = self._fetch()
        except StopIteration:
            raise
        except Exception:  # noqa: BLE001 - it is raised where the batch is wanted.
            return Delivery(self._worker, None, self._fetch.state(), _failure())
        return Delivery(self._worker, batch, state, None)


class StartWorker:
    """What torch takes for ``worker_init_fn``: opens the user's dataset, and shows it to those who ask for the worker.

    Args:
        worker_init_fn: The user's function, or None.
    """

    def __init__(self, worker_init_fn: Callable[[int], object] | None) -> None:
        self._worker_init_fn = worker_init_fn

    def __call__(self, worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        # Nobody else is in this process: the name is torch's, and it is what its function returns.
        torch_worker._worker_info = _replaced(info, info.dataset.open())  # noqa: SLF001
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker)


def _replaced(info: Any, dataset: Any) -> Any:
    if dataclasses.is_dataclass(info):
        return dataclasses.replace(info, dataset=dataset)  # type: ignore[type-var]
    return type(info)(id=info.id, num_workers=info.num_workers, seed=info.seed, dataset=dataset)
