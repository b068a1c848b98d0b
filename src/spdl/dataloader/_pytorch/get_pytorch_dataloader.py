"""The function of spdl 0.8.0 that makes a loader with worker processes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NoReturn

from torch.utils.data import IterableDataset

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._check import check_int, check_number, positive, refuse, show
from spdl._locate import callers_line

from .loader import PyTorchDataLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["get_pytorch_dataloader"]


def get_pytorch_dataloader(  # noqa: PLR0917 - torch's order of arguments.
    dataset: Any,
    batch_size: int | None = 1,
    shuffle: bool = False,  # noqa: FBT001, FBT002
    sampler: Iterable[Any] | None = None,
    batch_sampler: Iterable[Any] | None = None,
    num_workers: int = 1,
    collate_fn: Callable[[Any], Any] | None = None,
    pin_memory: bool = False,  # noqa: FBT001, FBT002
    drop_last: bool = False,  # noqa: FBT001, FBT002
    timeout: float | None = None,
    worker_init_fn: None = None,
    multiprocessing_context: Any = None,
    generator: Any = None,
    *,
    prefetch_factor: int = 2,
    persistent_workers: bool = False,
    pin_memory_device: None = None,
    in_order: bool = False,
    worker_init_concurrency: int | None = None,
) -> PyTorchDataLoader:
    """Return a loader whose workers are processes, as spdl 0.8.0 does.

    For a loader with threads, and with all of torch's arguments, call `PyTorchDataLoader`.

    Args:
        dataset: A map-style dataset. Processes that are not forked unpickle it; it is pickled once for all of them.
        batch_size: Items in a batch. None yields the items themselves. It must be None if there is a `batch_sampler`.
        shuffle: Whether to draw another order for each epoch.
        sampler: Yields the indices of an epoch, in this process.
        batch_sampler: Yields the lists of indices of an epoch, in this process.
        num_workers: How many processes there are. 0 becomes 1, with a warning.
        collate_fn: Makes a batch of a list of items. The default is torch's ``default_collate``, and
            ``default_convert`` without batches.
        pin_memory: Whether to copy batches into pinned memory.
        drop_last: Whether to drop a shorter last batch.
        timeout: Seconds to wait for a batch. None or 0 waits as long as it takes.
        worker_init_fn: Not accepted.
        multiprocessing_context: How to start the processes: a name or a context. None is Python's default.
        generator: A ``torch.Generator`` from which orders are drawn.
        prefetch_factor: How many batches are loaded or ready for each worker.
        persistent_workers: Not accepted.
        pin_memory_device: Not accepted.
        in_order: Whether batches come in the order of the sampler. By default they come as they are finished.
        worker_init_concurrency: How many processes unpickle the dataset at once. None sets no limit.

    Raises:
        ValueError: If an argument is not accepted, or excludes another one; if the dataset is iterable.
        TypeError: If an argument has the wrong type.

    Example:
        >>> from spdl.dataloader import get_pytorch_dataloader
        >>> loader = get_pytorch_dataloader([2, 3, 5], batch_size=2, in_order=True)
        >>> [batch.tolist() for batch in loader]
        [[2, 3], [5]]
    """
    if isinstance(dataset, IterableDataset):
        refuse(ValueError, "dataset", "map-style", dataset, "`PyTorchDataLoader` takes iterable datasets.")
    for name, value in (
        ("worker_init_fn", worker_init_fn),
        ("persistent_workers", persistent_workers or None),
        ("pin_memory_device", pin_memory_device),
    ):
        if value is not None:
            refuse(ValueError, name, "left out", value, "`PyTorchDataLoader` takes it.")
    _check_exclusions(batch_size, shuffle, sampler, batch_sampler, drop_last)
    num_workers = check_int("num_workers", num_workers, least=0)
    if num_workers == 0:
        warnings.warn("`num_workers` is 0, and becomes 1: this loader's workers are processes.", stacklevel=2)
        num_workers = 1
    seconds = 0.0 if timeout is None else check_number("timeout", timeout, "a number of seconds of at least 0 or None")
    if seconds < 0:
        refuse(ValueError, "timeout", "a number of seconds of at least 0 or None", timeout)
    if worker_init_concurrency is not None:
        worker_init_concurrency = positive("worker_init_concurrency", worker_init_concurrency)
    loader = PyTorchDataLoader(
        dataset,
        # torch wants its default beside a batch sampler.
        1 if batch_sampler is not None else batch_size,
        shuffle,
        sampler,
        batch_sampler,
        num_workers,
        collate_fn,
        pin_memory,
        drop_last,
        seconds,
        None,
        multiprocessing_context,
        generator,
        prefetch_factor=positive("prefetch_factor", prefetch_factor),
        in_order=in_order,
        workers="process",
    )
    loader._pickle_once(worker_init_concurrency)  # noqa: SLF001 - 0.8.0's, and no method for users.
    return loader


def _check_exclusions(batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: Any) -> None:
    if batch_sampler is not None:
        if sampler is not None:
            _exclude("sampler", sampler, "batch_sampler", batch_sampler)
        if batch_size is not None:
            _exclude("batch_size", batch_size, "batch_sampler", batch_sampler, " Pass batch_size=None.")
        if drop_last:
            _exclude("drop_last", drop_last, "batch_sampler", batch_sampler)
        if shuffle:
            _exclude("shuffle", shuffle, "batch_sampler", batch_sampler)
    elif batch_size is None and drop_last:
        _exclude("drop_last", drop_last, "batch_size", batch_size)
    if sampler is not None and shuffle:
        _exclude("shuffle", shuffle, "sampler", sampler)


def _exclude(name: str, value: Any, other: str, other_value: Any, remedy: str = "") -> NoReturn:
    raise ValueError(
        f"`{name}` and `{other}` exclude each other, got {name}={show(value)} and {other}={show(other_value)} "
        f"({callers_line()}).{remedy}"
    )
