"""Makes `torch.utils.data.get_worker_info` answer in worker threads, too."""

from __future__ import annotations

import random
import sys
import threading
import types
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils import worker as torch_worker

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .inherited_context import InheritedContext
from .intraop_threads import IntraopThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl._type_vars import T

__all__ = ["WorkerSlots"]


class _Here(threading.local):
    """What this thread is a worker of, if it is one."""

    info: Any = None

    def be(self, info: Any) -> Any:
        """Become a worker, or with None no worker any more, and return what it was before."""
        before, self.info = self.info, info
        return before


_HERE = _Here()

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
        names["_spdl_here"] = _HERE
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
    with one thread, as PyTorch's workers do.

    Args:
        base_seed: The seed of worker 0; each further worker's is one more.
        datasets: What each worker calls its dataset. Workers may share one.
        worker_init_fn: Called with the worker's number before it first loads. None calls nothing.
    """

    def __init__(self, base_seed: int, datasets: Sequence[Any], worker_init_fn: Callable[[int], object] | None) -> None:
        _install()
        self._worker_init_fn = worker_init_fn
        context = InheritedContext()
        self._intraop = IntraopThreads()
        self._slots = [
            _Slot(_make_info(number, len(datasets), base_seed + number, dataset), context.copy())
            for number, dataset in enumerate(datasets)
        ]
        # The last one is taken first, and was used last.
        self._free = self._slots[::-1]

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function as a worker that nobody else is.

        Raises:
            BaseException: What ``worker_init_fn`` or the function raises.
        """
        slot = self._free.pop()
        try:
            return self._run_in(slot, function, *args)
        finally:
            self._free.append(slot)

    def run_as(self, worker_id: int, function: Callable[..., T], *args: Any) -> T:
        """Call a function as that worker. The caller sees to it that nobody else is.

        Raises:
            BaseException: What ``worker_init_fn`` or the function raises.
        """
        return self._run_in(self._slots[worker_id], function, *args)

    def _run_in(self, slot: _Slot, function: Callable[..., T], *args: Any) -> T:
        before = _HERE.be(slot.info)
        self._intraop.limit_to_one()
        try:
            slot.context.run(self._initialise, slot)
            return slot.context.run(function, *args)
        finally:
            _HERE.be(before)

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
