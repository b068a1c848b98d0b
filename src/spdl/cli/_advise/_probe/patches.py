"""Put measurements around PyTorch's loaders.

Classes and methods look unchanged. The times of an object are kept in a slot of its dictionary, under a private name; a
loader has a second one that says that it was read.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter, thread_time
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .ahead import Ahead, outstanding
from .loop_times import LOOPS
from .makers import MAKERS, WorkerLoop
from .trial import TRIALS, copied

if TYPE_CHECKING:
    from .loop_times import LoaderTimes


_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not imported otherwise.


def call_site(made: object) -> tuple[str, int, bool]:
    """Return the file and line that make an object, and whether a library does it there. Its initialiser calls this.

    Initialisers of subclasses are passed over, and so are libraries if anything outside them takes part.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the only way to walk up without reading the sources.
    maker: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        is_ours = code.co_filename.startswith(_HERE)
        is_initialiser = (
            code.co_name == "__init__" and code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is made
        )
        if not is_ours and not is_initialiser:
            maker = maker or frame
            if not _is_library(code.co_filename):
                return code.co_filename, frame.f_lineno, frame is not maker
        frame = frame.f_back
    return (maker.f_code.co_filename, maker.f_lineno, True) if maker is not None else ("<unknown>", 0, True)


def _is_library(file: str) -> bool:
    return (
        "site-packages" in file or "dist-packages" in file or file.startswith(("<", sys.base_prefix + os.sep + "lib"))
    )


class RunQueue(threading.local):
    """The time that the calling thread waited for a core, as the system counts it.

    On a busy machine, a loop whose batch has arrived may wait for a core before it can take it: not for data.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):  # Systems other than Linux do not say.
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def seconds(self) -> float:
        if self._file is not None:
            with suppress(OSError, ValueError):
                return int(os.pread(self._file, 64, 0).split()[1]) * 1e-9
        return 0.0


_SLOT = "_spdl_advise"
_READ_SLOT = "_spdl_advise_read"
_ARGUMENTS = ("batch_size", "num_workers", "prefetch_factor", "pin_memory", "persistent_workers")


def measure_loaders(module: ModuleType) -> None:
    """Measure every loader that `torch.utils.data.dataloader`, just imported, makes from now on."""
    loader, iterator = module.DataLoader, module._BaseDataLoaderIter  # noqa: SLF001 - there is no public place.
    parts = module._utils  # noqa: SLF001
    _wrap(loader, "__init__", _make_loader)
    _wrap(loader, "__iter__", functools.partial(_begin_iteration, parts.worker))
    _wrap(iterator, "__next__", _take)
    fetchers = parts.fetch
    _wrap(fetchers._BaseDatasetFetcher, "__init__", _make_fetcher)  # noqa: SLF001
    for fetcher in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):  # noqa: SLF001
        _wrap(fetcher, "fetch", _fetch)


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        return around(method, *arguments, **named)

    setattr(owner, name, wrapped)


class _Reading:
    def __init__(self, site: str, loader: Any, times: LoaderTimes, ahead: Ahead | None, start_seconds: float) -> None:
        self.site = site
        self.loader = copied(loader, loader.num_workers)
        self.times = times
        self.ahead = ahead
        self.held: deque[tuple[Any, BaseException | None]] = deque()
        self.idle = False
        self.start_seconds: float | None = start_seconds
        self._delay: float | None = None

    def take(self, method: Any, iterator: Any) -> Any:
        LOOPS.request(perf_counter())
        if not self.held and self.start_seconds is None and self._try(at_end=False):
            self.times.leave_out(outstanding(iterator))
        asked_at = perf_counter()
        if not self.held and self.ahead is not None and self.start_seconds is None:
            self.idle = self.ahead.collect(iterator, method, self.held)
        if self.held:
            batch, error = self.held.popleft()
            if error is not None:
                raise error
            LOOPS.give(self.times, perf_counter(), ahead=self.idle)
            return batch
        cpu, delay = thread_time(), _RUN_QUEUE.seconds()
        if self._delay is not None:
            self.times.add_coreless(delay - self._delay)
            self._delay = None
        try:
            batch = method(iterator)
        except StopIteration:
            self.times.add_end(perf_counter() - asked_at)
            self._try(at_end=True)
            LOOPS.write()
            raise
        now = perf_counter()
        if self.start_seconds is None:
            # On a busy machine a thread whose batch has come waits for a core, as it does in its step. Without workers,
            # it is the one that loads.
            delayed = 0.0
            if self.ahead is not None:
                self._delay = _RUN_QUEUE.seconds()
                delayed = min(now - asked_at, self._delay - delay)
            self.times.add_wait(now - asked_at, thread_time() - cpu, delayed)
        else:
            self.times.add_start(self.start_seconds + now - asked_at)
            self.start_seconds = None
        LOOPS.give(self.times, now, ahead=False)
        return batch

    def _try(self, *, at_end: bool) -> bool:
        return TRIALS.run_when_due(self.site, self.loader, self.times, at_end=at_end)


_RUN_QUEUE = RunQueue()
_AHEAD: WeakKeyDictionary[LoaderTimes, Ahead] = WeakKeyDictionary()


def _make_loader(method: Any, loader: Any, *arguments: Any, **named: Any) -> None:
    method(loader, *arguments, **named)
    vars(loader)[_SLOT] = call_site(loader)


def _describe(loader: Any) -> tuple[str, dict[str, Any]]:
    file, line, by_library = vars(loader)[_SLOT]
    description: dict[str, Any] = {name: getattr(loader, name, None) for name in _ARGUMENTS}
    description |= {
        "file": file,
        "line": line,
        "by_library": by_library,
        "class": f"{type(loader).__module__}.{type(loader).__qualname__}",
        "iterable": getattr(loader, "_dataset_kind", 0) == 1,
        "worker_init_fn": loader.worker_init_fn is not None,
        "multiprocessing_context": loader.multiprocessing_context is not None,
    }
    return f"{file}:{line}", description


def _begin_iteration(worker: Any, method: Any, loader: Any) -> Any:
    if _SLOT not in vars(loader):  # Its class does not call the initialiser.
        return method(loader)
    began = perf_counter()
    LOOPS.request(began)
    site, description = _describe(loader)
    times = LOOPS.times_of(site, description)
    if _READ_SLOT not in vars(loader):
        vars(loader)[_READ_SLOT] = True
        times.add_loader()
    before = MAKERS.work_for(site)
    loop = worker._worker_loop  # noqa: SLF001 - what PyTorch tells its processes to run.
    vars(worker)["_worker_loop"] = WorkerLoop(site, loop)
    try:
        iterator = method(loader)
    finally:
        vars(worker)["_worker_loop"] = loop
        MAKERS.work_for(before)
    known = vars(iterator)
    ahead = _AHEAD.setdefault(times, Ahead(times)) if "_worker_result_queue" in known else None
    known[_SLOT] = _Reading(site, loader, times, ahead, perf_counter() - began)
    return iterator


def _take(method: Any, iterator: Any) -> Any:
    reading = vars(iterator).get(_SLOT)
    return method(iterator) if reading is None else reading.take(method, iterator)


def _make_fetcher(
    method: Any, fetcher: Any, dataset: Any, auto_collation: Any, collate_fn: Any, *arguments: Any
) -> None:
    maker = MAKERS.current()
    if maker is not None:
        collate_fn = functools.partial(maker.fetches.collate, collate_fn)
        vars(fetcher)[_SLOT] = maker
    method(fetcher, dataset, auto_collation, collate_fn, *arguments)


def _fetch(method: Any, fetcher: Any, index: Any) -> Any:
    maker = vars(fetcher).get(_SLOT)
    return method(fetcher, index) if maker is None else maker.fetch(method, fetcher, index)
