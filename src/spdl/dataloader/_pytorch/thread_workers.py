"""Worker threads, and what makes them behave as PyTorch's worker processes do."""

from __future__ import annotations

import atexit
import copy
import logging
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from contextvars import copy_context
from dataclasses import fields, is_dataclass
from functools import partial
from queue import SimpleQueue
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data._utils import worker as torch_worker

from spdl._processes import LOOPS, before_children_are_awaited
from spdl.dataloader._thread_safety.values import reachable
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline._for_loaders import tell_arguments
from spdl.pipeline._report.page import LoaderArguments, StageArguments

T = TypeVar("T")


class _ThreadInfo(threading.local):
    info: Any = None
    is_limited = False

    def be(self, info: Any) -> Any:
        """Become a worker, or with None no worker any more, and return what it was before."""
        before, self.info = self.info, info
        return before

    def note_limit(self) -> None:
        self.is_limited = True


_THREAD_INFO = _ThreadInfo()

_INSTALLING = threading.Lock()


def _answer_here() -> Any:
    # This code runs as torch's function, so it sees the names of torch's module, where `_install` puts these.
    info = _spdl_here.info  # type: ignore[name-defined] # noqa: F821
    if info is None:
        return _spdl_elsewhere()  # type: ignore[name-defined] # noqa: F821
    # torch's collate asks in order to make the batch in shared memory, where another process could find it.
    asks = _spdl_frame(1).f_globals.get("__name__")  # type: ignore[name-defined] # noqa: F821
    return None if asks == "torch.utils.data._utils.collate" else info


def _install() -> None:
    """Make torch's function ask the thread first.

    The function is changed, not replaced, because datasets have imported it by name. Elsewhere its own code answers.
    """
    with _INSTALLING:
        if get_worker_info.__code__ is _answer_here.__code__:
            return
        names = get_worker_info.__globals__
        names["_spdl_here"] = _THREAD_INFO
        names["_spdl_frame"] = sys._getframe  # noqa: SLF001 - a function of Python's, in spite of its name.
        names["_spdl_elsewhere"] = types.FunctionType(get_worker_info.__code__, names, get_worker_info.__name__)
        get_worker_info.__code__ = _answer_here.__code__


def _make_info(worker_id: int, num_workers: int, seed: int, dataset: Any) -> Any:
    known = {"id": worker_id, "num_workers": num_workers, "seed": seed, "dataset": dataset}
    kind = torch_worker.WorkerInfo
    names = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    if "worker_method" in names:
        known["worker_method"] = "thread"
    if "rng" in names and (make_generators := getattr(torch_worker, "_RNG", None)):
        numpy = sys.modules.get("numpy")
        known["rng"] = make_generators(
            random_generator=random.Random(seed),  # noqa: S311 - no secret.
            torch_generator=torch.Generator().manual_seed(seed),
            numpy_generator=numpy and numpy.random.default_rng(seed % 2**64),
        )
    return kind(**known)


class _Slot:
    __slots__ = ("context", "failure", "info", "initialised")

    def __init__(self, info: Any, context: InheritedContext) -> None:
        self.info = info
        self.context = context
        self.initialised = False
        self.failure: str | None = None


class WorkerSlots:
    """As many places for workers as there are workers. A thread takes one while it loads.

    So no two threads are the same worker at once, and what a dataset keeps for each worker belongs to one thread at a
    time. Each has the context of the thread that makes this object. A thread that was a worker runs PyTorch's operators
    with one thread, as PyTorch's workers do. Worker 0 has the `base_seed`; each further worker's is one more.
    """

    def __init__(self, base_seed: int, datasets: Sequence[Any], worker_init_fn: Callable[[int], object] | None) -> None:
        _install()
        self._worker_init_fn = worker_init_fn
        self._intraop = IntraopThreads()
        self._slots = [
            _Slot(_make_info(number, len(datasets), base_seed + number, dataset), InheritedContext())
            for number, dataset in enumerate(datasets)
        ]
        # The last one is taken first, and was used last.
        self._free = self._slots[::-1]

    def run(self, function: Callable[..., T], *args: Any) -> T:
        slot = self._free.pop()
        try:
            return self._run_in(slot, function, *args)
        finally:
            self._free.append(slot)

    def run_as(self, worker_id: int, function: Callable[..., T], *args: Any) -> T:
        """Call a function as that worker. The caller ensures that no other thread is."""
        return self._run_in(self._slots[worker_id], function, *args)

    def _run_in(self, slot: _Slot, function: Callable[..., T], *args: Any) -> T:
        before = _THREAD_INFO.be(slot.info)
        self._intraop.limit_to_one()
        try:
            slot.context.run(self._initialise, slot)
            return slot.context.run(function, *args)
        finally:
            _THREAD_INFO.be(before)

    def _initialise(self, slot: _Slot) -> None:
        if slot.failure is not None:
            raise RuntimeError(f"`worker_init_fn` failed for worker {slot.info.id} before: {slot.failure}")
        if slot.initialised:
            return
        slot.initialised = True
        if self._worker_init_fn is not None:
            try:
                self._worker_init_fn(slot.info.id)
            except BaseException as error:
                # Not the exception itself: its traceback leads back here, once it was raised to the consumer.
                slot.failure = repr(error)
                raise


_DEVICES = ("cpu", "cuda")


class InheritedContext:
    """The context variables and modes of PyTorch of the thread that makes it: of a loop under ``torch.no_grad``, say.

    One thread at a time may be in it. Context variables hold the settings of ``decimal`` and, from NumPy 2 on, of
    ``numpy.errstate``.
    """

    def __init__(self) -> None:
        self._variables = copy_context()
        self._modes = _modes()

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in it. Changes of the function stay for the next call, but not in the thread."""
        if self._modes:
            return self._variables.run(self._run_in_modes, function, *args)
        return self._variables.run(function, *args)

    def _run_in_modes(self, function: Callable[..., T], *args: Any) -> T:
        with ExitStack() as stack:
            for mode in self._modes:
                stack.enter_context(mode())
            return function(*args)


def _modes() -> list[Callable[[], AbstractContextManager[Any]]]:
    """Return what puts another thread into the modes that this one is in; nothing for those it begins in."""
    modes: list[Callable[[], AbstractContextManager[Any]]] = []
    if torch.is_inference_mode_enabled():
        modes.append(torch.inference_mode)
    elif not torch.is_grad_enabled():
        modes.append(torch.no_grad)
    # Since PyTorch 2.4.
    if hasattr(torch, "get_autocast_dtype"):
        modes += [_autocast(device) for device in _DEVICES if torch.is_autocast_enabled(device)]
    return modes


def _autocast(device: str) -> Callable[[], AbstractContextManager[Any]]:
    return partial(
        torch.autocast, device, torch.get_autocast_dtype(device), cache_enabled=torch.is_autocast_cache_enabled()
    )


_LIMITING = threading.Lock()


class IntraopThreads:
    """Limits the operators of the threads that load, which would otherwise each start as many as there are cores.

    Made in the thread whose number of threads the rest of the program keeps.
    """

    def __init__(self) -> None:
        self._number = torch.get_num_threads()

    def limit_to_one(self) -> None:
        if _THREAD_INFO.is_limited or self._number == 1:
            return
        with _LIMITING:
            # PyTorch keeps a number for each thread that has begun to use its operators, which asking does, and the
            # last one that was set for those that begin later. So the number of the program is set once more, in a
            # thread that ends.
            torch.get_num_threads()
            torch.set_num_threads(1)
            restoring = threading.Thread(target=torch.set_num_threads, args=(self._number,), daemon=True)
            restoring.start()
            restoring.join()
        _THREAD_INFO.note_limit()


_LG = logging.getLogger("spdl.dataloader")

# They never change, or copies are not wanted. Of tuples, the parts count.
_SHARED_ANYWAY = (
    *(int, float, complex, str, bytes, type(None), range, tuple, frozenset),
    *(FunctionType, BuiltinFunctionType, CellType),
)


def make_own_copies(dataset: Any, count: int) -> list[Any]:
    """Return deep copies of a dataset. Parts that they still share are logged, as a warning."""
    try:
        copies = [copy.deepcopy(dataset) for _ in range(count)]
    except Exception as error:  # noqa: BLE001 - whatever an object makes of being copied.
        _LG.warning(
            "Worker threads share what the dataset holds, since a %s cannot be copied: %r. Each has a shallow copy of "
            "the dataset itself. If they must not share it, use workers='process'.",
            type(dataset).__name__,
            error,
        )
        return [copy.copy(dataset) for _ in range(count)]
    if count and (shared := _find_shared(dataset, copies[0])) is not None:
        _LG.warning(
            "Worker threads share a %s that the dataset holds: its copies are not apart from each other. If they must "
            "not share it, use workers='process'.",
            type(shared).__name__,
        )
    return copies


def _find_shared(dataset: Any, other: Any) -> Any:
    own = {id(it) for it in reachable([dataset])}
    shared = (it for it in reachable([other]) if id(it) in own)
    return next((it for it in shared if not isinstance(it, _SHARED_ANYWAY)), None)


# A batch of a few kilobytes takes this many more seconds of CPU time from torch's processes than from threads.
_CROSSING = 6e-4


def arguments_of(loader: DataLoader, num_workers: int) -> LoaderArguments:
    iterable = isinstance(loader.dataset, IterableDataset)
    load = StageArguments(
        unit="item" if loader.batch_size is None and loader.batch_sampler is None else "batch",
        slot="worker",
        several="num_workers",
        value=num_workers,
        note="The dataset has to share itself among them (`get_worker_info`)." if iterable else "",
        processes='workers="process"',
        crossing=_CROSSING,
    )
    idle = (
        "Workers wait for the loop to ask for more: it asks for `prefetch_factor` batches for each of them. If some "
        "batches take far longer than others, a greater `prefetch_factor` lets workers continue during these."
    )
    return LoaderArguments(type(loader).__name__, (load,), on_demand=True, idle=idle)


# What Python, SQLite and tokenizers written in Rust say if two threads use one object at a time.
_SIGNS = (
    "already borrowed",
    "changed size during iteration",
    "mutated during iteration",
    "generator already executing",
    "used in that same thread",
)


def note_sharing(error: BaseException) -> None:
    """Add a note to an error that a worker thread has met, if sharing the dataset is a likely cause."""
    text = str(error).lower()
    if any(sign in text for sign in _SIGNS):
        error.add_note(
            "Worker threads share the dataset, which is a likely cause: workers='process' gives each worker its own."
        )


RequestT = TypeVar("RequestT")
OutcomeT = TypeVar("OutcomeT")


# A loop that is left waits so long for the items that are being loaded.
_PATIENCE = 5.0


_LIVE: weakref.WeakSet[ThreadWorkers[Any, Any]] = weakref.WeakSet()


class ThreadWorkers(Generic[RequestT, OutcomeT]):
    """Threads that turn requests into outcomes, in the order in which they are done.

    `load` makes an outcome of a request, or is a generator function that makes any number. It must not raise. There are
    at most `capacity` requests at a time.
    """

    def __init__(
        self, load: Callable[[RequestT], Any], num_workers: int, capacity: int, arguments: LoaderArguments
    ) -> None:
        # The source of the pipeline waits for requests. None ends it.
        self._requests: SimpleQueue[RequestT | None] = SimpleQueue()
        self.pipeline: Pipeline[OutcomeT] = (
            PipelineBuilder()
            .add_source(iter(self._requests.get, None))
            .pipe(load, concurrency=num_workers, name="load")
            .add_sink(capacity)
            .build(num_threads=num_workers)
        )
        tell_arguments(self.pipeline, arguments)
        self.pipeline.start()
        _LIVE.add(self)
        before_children_are_awaited(_close_all, LOOPS)

    def ask(self, request: RequestT) -> None:
        self._requests.put(request)

    def take(self, timeout: float) -> OutcomeT:
        """Wait for an outcome and return it, or raise with torch's message. 0 and NaN wait as long as it takes."""
        try:
            return self.pipeline.get_item(timeout=float(timeout) if timeout > 0 else None)
        except TimeoutError:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None

    def close(self) -> None:
        """End the threads. They finish their current items first."""
        self._requests.put(None)
        try:
            self.pipeline.stop(timeout=_PATIENCE)
        except TimeoutError as error:
            _LG.warning(
                "A loop was left, and its worker threads continue until they have loaded their items: %s", error
            )


def _close_all() -> None:
    for workers in list(_LIVE):
        workers.close()


# It runs before the pipelines are stopped, which would wait for their sources.
atexit.register(_close_all)
