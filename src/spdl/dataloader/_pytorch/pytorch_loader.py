"""A loader with the arguments of PyTorch's DataLoader, whose workers are threads."""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import GenericAlias
from typing import Any, Literal, NamedTuple

from torch.utils.data import DataLoader, IterableDataset, IterDataPipe, MapDataPipe

from spdl._check import check_choice, check_instance, check_int, check_number, positive, refuse, show
from spdl._cores import available_cores
from spdl._locate import callers_line, warn_caller
from spdl.dataloader._pytorch.loader_iterators import CallerIterator, ThreadIterator, TrackedIterator
from spdl.dataloader._pytorch.random_states import Moment
from spdl.dataloader._pytorch.state import IterableEpoch, MapEpoch, apply_state, check_whole, make_epoch, make_state
from spdl.dataloader._pytorch.streams import StreamIterator
from spdl.dataloader._pytorch.worker_processes import ProcessIterator
from spdl.dataloader._thread_safety.search import find_obstacle

_LG = logging.getLogger("spdl.dataloader")

_KNOWS_IN_ORDER = "in_order" in inspect.signature(DataLoader.__init__).parameters


_SAMPLERS = ("torch.utils.data.", "spdl.source.", "builtins")


class WorkerChoice(NamedTuple):
    """The kind of a loader's workers.

    Attributes:
        kind: ``"thread"`` or ``"process"``; ``"caller"`` if there are no workers, and the loop loads by itself.
        reason: Why, in words.
    """

    kind: Literal["thread", "process", "caller"]
    reason: str


def _choose_workers(loader: DataLoader) -> WorkerChoice:  # noqa: PLR0911 - one for each reason.
    if loader.num_workers == 0:
        return WorkerChoice("caller", "num_workers is 0")
    if loader.workers is not None:
        return WorkerChoice(loader.workers, f"workers={loader.workers!r} was asked for")
    if isinstance(loader.dataset, IterableDataset):
        return WorkerChoice("process", "each worker of an IterableDataset needs a copy of its own to iterate")
    if loader.worker_init_fn is not None:
        return WorkerChoice("process", "worker_init_fn was given, which usually changes the state of a whole process")
    if loader.multiprocessing_context is not None:
        return WorkerChoice("process", "multiprocessing_context was given")
    obstacle = find_obstacle(
        loader.dataset, loader.collate_fn, _own_samplers(loader), batched=loader.batch_sampler is not None
    )
    if obstacle is not None:
        return WorkerChoice("process", f"{obstacle}; workers='thread' says that threads may share it")
    return WorkerChoice("thread", "the code that loads an item only reads what threads share")


def _own_samplers(loader: DataLoader) -> list[Any]:
    """Return the user's own samplers. PyTorch's and ours yield numbers, and change nothing but themselves."""
    samplers = [loader.batch_sampler, loader.sampler, getattr(loader.batch_sampler, "sampler", None)]
    return [it for it in samplers if it is not None and not type(it).__module__.startswith(_SAMPLERS)]


class PyTorchDataLoader(DataLoader):  # type: ignore[misc] # mypy sees no types of torch's.
    """A loader that takes the place of ``torch.utils.data.DataLoader``: the same arguments, the same batches.

    With the same seed, the batches equal those from torch's class, in the same order, if items are deterministic. The
    workers are threads if it is proven that threads may share the dataset: they start at once, and copy nothing from
    process to process. Each iteration is an epoch, which ends and frees its workers when its loop is left. It is a
    subclass of torch's class, so other libraries take it for one.

    Args:
        dataset: A map-style dataset (``__getitem__``, and ``__len__`` unless a sampler is given), or a
            ``torch.utils.data.IterableDataset``. Threads call it from several threads at once.
        batch_size: Items in a batch. None yields the items themselves, or what the dataset makes of the sampler's
            lists.
        shuffle: Whether to draw another order for each epoch, from ``generator`` or torch's global generator.
        sampler: Yields the indices of an epoch. The consumer's thread runs it, as far ahead as torch does.
        batch_sampler: Yields the lists of indices of an epoch.
        num_workers: How many batches are loaded at once. 0 loads them in the consumer's thread, when they are wanted.
            Datasets that compute gain nothing from more workers than there are cores, and in threads only as far as
            they release the GIL.
        collate_fn: Makes a batch of a list of items. The default is torch's ``default_collate``, and
            ``default_convert`` without batches. It runs in the workers.
        pin_memory: Whether to copy batches into pinned memory. It warns and does nothing without an accelerator.
        drop_last: Whether to drop a shorter last batch.
        timeout: Seconds to wait for a batch; 0 waits as long as it takes. Not without workers.
        worker_init_fn: Called with the worker's number in each worker before it loads. Workers are processes then,
            unless ``workers`` says otherwise.
        multiprocessing_context: How to start worker processes. Workers are processes then, unless ``workers`` says
            otherwise.
        generator: A ``torch.Generator`` from which orders and seeds are drawn.
        prefetch_factor: How many batches are loaded or ready for each worker, 2 by default.
        persistent_workers: Whether workers stay for the next epoch, with what they keep.
        pin_memory_device: Deprecated by torch, without effect in its later releases.
        in_order: Whether batches come in the order of the sampler. Otherwise they come in the order of completion.
        workers: ``"thread"`` or ``"process"``. None chooses: threads if the code that loads an item was followed
            to its end, and only reads what outlives the loading of an item; processes otherwise, and for an
            ``IterableDataset``, with ``worker_init_fn`` or ``multiprocessing_context``. `worker_choice` says which it
            is, and why.

    Attributes:
        dataset: The dataset, as all other arguments under their names.

    Raises:
        ValueError, TypeError: If an argument is wrong, with torch's messages, or if ``workers`` has another value.

    Example:
        >>> from spdl.dataloader import PyTorchDataLoader
        >>> loader = PyTorchDataLoader([2, 3, 5, 7, 11], batch_size=2, num_workers=2)
        >>> [batch.tolist() for batch in loader]
        [[2, 3], [5, 7], [11]]
        >>> loader.worker_choice.kind
        'thread'
    """

    # Annotations of programs say `DataLoader[int]`, as torch's class allows.
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(  # noqa: PLR0917 - torch's order of arguments.
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,  # noqa: FBT001
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,  # noqa: FBT001, FBT002
        drop_last: bool = False,  # noqa: FBT001, FBT002
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        workers: Literal["thread", "process"] | None = None,
    ) -> None:
        check_choice("workers", workers, ("thread", "process", None))
        self.workers = workers
        # The iterator that was made or read last, and its epoch.
        self._latest: weakref.ref[TrackedIterator] | None = None
        self._epoch: MapEpoch | IterableEpoch | None = None
        # The state that was loaded, and its part for the epoch to continue with, until that epoch is begun.
        self._loaded: dict[str, Any] | None = None
        self._packed: dict[str, Any] | None = None
        self._told_to_wait = False
        self._iterator: Any = None
        # How many worker processes unpickle the dataset at once, 0 for all. None leaves pickling to multiprocessing.
        self._pickles_once: int | None = None
        self._told: WorkerChoice | None = None
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            **({"in_order": in_order} if _KNOWS_IN_ORDER else {}),
        )
        if not _KNOWS_IN_ORDER:
            self.in_order = in_order

    @classmethod
    def like(cls, loader: DataLoader, *, workers: Literal["thread", "process"] | None = None) -> PyTorchDataLoader:
        """Return a loader of this class with the arguments of one of torch's.

        Args:
            loader: A loader of ``torch.utils.data.DataLoader``, or of a subclass.
            workers: As for the class.

        Raises:
            TypeError: If ``loader`` is no DataLoader of torch.
            ValueError: If ``workers`` has another value.

        Example:
            >>> from torch.utils.data import DataLoader
            >>> from spdl.dataloader import PyTorchDataLoader
            >>> PyTorchDataLoader.like(DataLoader(range(5), batch_size=2, num_workers=1)).worker_choice.kind
            'thread'
        """
        check_instance("loader", loader, DataLoader, "a torch.utils.data.DataLoader")
        order: dict[str, Any] = {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
        if loader.batch_size is None and loader.batch_sampler is not None:
            # torch wants its defaults beside a batch sampler.
            order = {"batch_sampler": loader.batch_sampler}
        elif not isinstance(loader.dataset, IterableDataset):
            order["sampler"] = loader.sampler
        others = (
            "num_workers",
            "collate_fn",
            "pin_memory",
            "timeout",
            "worker_init_fn",
            "multiprocessing_context",
            "generator",
            "prefetch_factor",
            "persistent_workers",
            "pin_memory_device",
        )
        arguments = {name: getattr(loader, name) for name in others}
        return cls(loader.dataset, **order, **arguments, in_order=getattr(loader, "in_order", True), workers=workers)

    @property
    def worker_choice(self) -> WorkerChoice:
        """Whether the workers are threads or processes, and why."""
        return _choose_workers(self)

    def check_worker_number_rationality(self) -> None:
        """Warn of more worker processes than the machine has cores, as torch does. Threads may be more."""
        # The choice takes time. Without more workers than cores, torch has nothing to warn of.
        if self.num_workers > available_cores() and self.worker_choice.kind == "process":
            super().check_worker_number_rationality()

    def __repr__(self) -> str:
        choice = self.worker_choice
        return (
            f"<PyTorchDataLoader of {type(self.dataset).__name__}: {self.num_workers} workers, {choice.kind}, since "
            f"{choice.reason}>"
        )

    def __iter__(self) -> Any:
        if self._packed is not None and self._iterator is not None:
            # Persistent workers would begin at the beginning.
            self._iterator.begin_again(self)
            return self._iterator
        return super().__iter__()

    def _get_iterator(self) -> Any:
        choice = self.worker_choice
        if choice != self._told:
            self._told = choice
            _LG.info("A PyTorchDataLoader's workers: %s, since %s.", choice.kind, choice.reason)
        if self._is_pipe():
            return super()._get_iterator()
        with self._drawing():
            if choice.kind == "caller":
                return CallerIterator(self)
            if choice.kind == "process":
                return ProcessIterator(self)
            return (StreamIterator if isinstance(self.dataset, IterableDataset) else ThreadIterator)(self)

    def _drawing(self) -> AbstractContextManager[None]:
        # The rest of an epoch draws nothing that the whole epoch has not drawn before.
        return nullcontext() if self._packed is None else Moment.note(of_torch=True).in_force()

    def _begin(
        self, iterator: TrackedIterator, seed: int | None
    ) -> tuple[MapEpoch | IterableEpoch, dict[str, Any] | None]:
        """Return the epoch of an iterator that begins, and the state that it takes up if no other iterator may.

        Workers that stay have a seed already. The rest of an epoch is begun by whichever iterator is read first: some
        libraries make one and read another.
        """
        loaded, packed = self._loaded, self._packed
        epoch = make_epoch(self, self._index_sampler, packed, loaded["base_seed"] if loaded else seed)
        self._latest = weakref.ref(iterator)
        if packed is None:
            # In this order: a signal handler may come between, and ask for the state.
            self._epoch = epoch
            self._loaded = None
        elif isinstance(epoch, IterableEpoch):
            epoch.tell_what_is_repeated()
        return epoch, self._loaded

    def _read_from(self, iterator: TrackedIterator, *, first: bool) -> None:
        if not first and self._loaded is not None:
            self._tell_that_it_waits()
        self._latest, self._epoch = weakref.ref(iterator), iterator.epoch
        if first:
            self._loaded = self._packed = None

    def _pickle_once(self, at_once: int | None) -> None:
        self._pickles_once = at_once or 0

    def state_dict(self) -> dict[str, Any]:
        """Return where the iterator that was made or read last is, so that another process can continue from there.

        It may be called between two batches, before the first iteration and after the last batch, also by a signal
        handler. Once the read after the last batch has found the end, it is the state of the next epoch.

        Returns:
            A dict that ``json.dumps`` takes, if it takes what the user's own ``state_dict`` methods return.

        Raises:
            TypeError: If the dataset is a ``DataPipe`` of torchdata, which has no position.
        """
        self._refuse_pipes()
        if self._loaded is not None and (self._epoch is None or self._epoch.finished):
            return copy.deepcopy(self._loaded)
        return make_state(self, self._index_sampler, self._epoch)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Begin the next iteration with the batch after those that were received when the state was made.

        It may be one that was begun already, if nothing was read from it yet. An iterator that was read continues as it
        was, as with torchdata's ``StatefulDataLoader``, and the state waits for the next ``iter(loader)``.

        Args:
            state_dict: What `state_dict` returned, in this process or another. An empty one changes nothing.

        Raises:
            TypeError: If it is not a dict, or the dataset is a ``DataPipe``.
            ValueError: If it is truncated or damaged, was saved by a newer release, or by a loader over other data.

        Warns:
            RuntimeWarning: If the latest iterator was read and has not come to its end, which is a read after the
                last batch, and something still holds it. With persistent workers the loader itself holds it, and
                nothing tells whether a loop was left, so the warning comes only if it is read on.

        Example:
            >>> from spdl.dataloader import PyTorchDataLoader
            >>> loader = PyTorchDataLoader(range(6), batch_size=2)
            >>> for batch in loader:
            ...     break
            >>> resumed = PyTorchDataLoader(range(6), batch_size=2)
            >>> batches = iter(resumed)
            >>> resumed.load_state_dict(loader.state_dict())
            >>> next(batches).tolist()
            [2, 3]
        """
        self._refuse_pipes()
        if state_dict == {}:
            return
        sampler = self._index_sampler
        check_whole(state_dict, self, sampler)
        self._packed = apply_state(state_dict, self, sampler)
        self._loaded = copy.deepcopy(state_dict)
        self._epoch = None
        self._told_to_wait = False
        latest = None if self._latest is None else self._latest()
        if latest is not None and latest is not self._iterator and latest.is_under_way():
            self._tell_that_it_waits()

    def _tell_that_it_waits(self) -> None:
        if not self._told_to_wait:
            self._told_to_wait = True
            warn_caller(
                "A state was loaded while an iterator over this PyTorchDataLoader was read and had not come to its "
                "end, which is a read after the last batch. That iterator is unaffected; the state takes effect in the "
                "next `iter(loader)`. Load a state before the first read, or leave the loop and begin another one."
            )

    def __getstate__(self) -> dict[str, Any]:
        # A copy has its own iterators.
        return {**self.__dict__, "_latest": None}

    def _is_pipe(self) -> bool:
        return isinstance(self.dataset, (IterDataPipe, MapDataPipe))

    def _refuse_pipes(self) -> None:
        if self._is_pipe():
            raise TypeError(
                f"A loader over a DataPipe has no state, got {type(self.dataset).__name__}. Make it a Dataset or an "
                "IterableDataset."
            )


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
        in_order: Whether batches come in the order of the sampler. By default they come in the order of completion.
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
    _check_exclusions(
        batch_size=batch_size, shuffle=shuffle, sampler=sampler, batch_sampler=batch_sampler, drop_last=drop_last
    )
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


def _check_exclusions(**given: Any) -> None:
    wanted = {name for name, value in given.items() if value is not None and value is not False}
    excluded = [(it, "batch_sampler") for it in ("sampler", "batch_size", "drop_last", "shuffle")]
    pairs = [it for it in (*excluded, ("shuffle", "sampler")) if wanted.issuperset(it)]
    if "drop_last" in wanted and wanted.isdisjoint({"batch_size", "batch_sampler"}):
        pairs.append(("drop_last", "batch_size"))
    for name, other in pairs:
        remedy = " Pass batch_size=None." if name == "batch_size" else ""
        raise ValueError(
            f"`{name}` and `{other}` exclude each other, got {name}={show(given[name])} and "
            f"{other}={show(given[other])} ({callers_line()}).{remedy}"
        )
