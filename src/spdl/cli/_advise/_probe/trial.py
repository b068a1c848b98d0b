"""Tries what the job might do instead: with its own dataset, in a forked copy of its process, for some seconds."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from time import perf_counter, sleep, thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

from .loop_times import RecordFile

if TYPE_CHECKING:
    from .loop_times import LoaderTimes


_MOST_BATCHES = 8
_SECONDS = 1.0
_DEPTH = 3
_DIMENSIONS, _CHANNELS = 4, 3
# So many that no turn comes to the end.
_REPEATED = 100_000


class Photos(NamedTuple):
    """Photos, in the order in which they were opened, and the batches that a dataset makes of them."""

    files: list[str]
    batch_size: int
    height: int
    width: int
    layout: str
    dtype: str

    def loader(self, threads: int) -> Any:
        files = self.files * (_REPEATED // len(self.files) + 1)
        return import_module("spdl.dataloader").ImageLoader(
            files,
            self.batch_size,
            size=(self.height, self.width),
            mode="stretch",
            layout=self.layout,
            dtype=self.dtype,
            num_threads=threads,
        )

    def __str__(self) -> str:
        count = len(set(self.files))
        return f"{count} of the job's photos as {self.width}x{self.height}, {self.dtype}"


def photos_in(batches: Any) -> Photos | None:
    """Return the photos of the first batches; None if what is opened is not exactly what the batches consist of.

    The loader has no workers, so that the dataset's code runs here.
    """
    image = sys.modules.get("PIL.Image")
    if image is None:
        return None
    files = list[str]()
    opens = vars(image)["open"]

    def note(file: Any, *arguments: Any, **named: Any) -> Any:
        # An open file has its path; a number or bytes have none.
        path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
        files.append(os.path.abspath(path) if isinstance(path, (str, os.PathLike)) else "")  # noqa: PTH100 - no pathlib.
        return opens(file, *arguments, **named)

    vars(image)["open"] = note
    sizes = list[int]()
    shape: tuple[int, int, str, str] | None = None
    try:
        end = perf_counter() + _SECONDS
        for batch in batches:
            found = next(_pictures(batch, _DEPTH), None)
            if found is None or shape not in (None, found[1:]):
                return None
            sizes.append(found[0])
            shape = found[1:]
            if len(sizes) == _MOST_BATCHES or perf_counter() > end:
                break
    except Exception:  # noqa: BLE001 - the way in which the job loads tells it.
        return None
    finally:
        vars(image)["open"] = opens
    if shape is None or len(files) != sum(sizes) or not all(map(os.path.isfile, files)):
        return None
    return Photos(files, max(sizes), *shape)


def _pictures(value: Any, depth: int) -> Iterator[tuple[int, int, int, str, str]]:
    """Yield the number, height, width, layout and type of the RGB pictures in a batch."""
    shape, dtype = getattr(value, "shape", ()), str(getattr(value, "dtype", "")).rpartition(".")[2]
    if len(shape) == _DIMENSIONS and dtype in ("uint8", "float16", "float32"):
        count, *sides = map(int, shape)
        if sides[0] == _CHANNELS:
            yield count, sides[1], sides[2], "NCHW", dtype
        elif sides[2] == _CHANNELS:
            yield count, sides[0], sides[1], "NHWC", dtype
    if isinstance(value, dict):
        value = list(value.values())
    if depth and isinstance(value, (list, tuple)):
        for each in value:
            yield from _pictures(each, depth - 1)


# A loop that waits less than this share of its time, beginnings included, has nothing to gain.
_LEAST_SHARE = 0.05
# Five steps tell how long one takes. A trial in the middle of an iteration waits for more steps and seconds: if the end
# of the iteration is near, the trial can run there, when the workers are idle.
_LEAST_STEPS, _STEPS_WITHIN, _SECONDS_WITHIN = 5, 40, 5.0
# The number of turns of each way.
_TURNS = 4
# Workers may import large libraries when they start.
_LONGEST_START = 20.0
# A worker has this number of batches ready, unless the job says otherwise.
_READY = 2
_MOST_THREADS = 32
_BLOCK = bytes(1 << 16)
# A batch may be None.
_END = object()


class Trials:
    def __init__(self) -> None:
        self._tried: set[str] = set()
        self._began = perf_counter()

    def run_when_due(self, site: str, loader: Any, times: LoaderTimes, *, at_end: bool) -> bool:
        """Try other ways to load, if it is time to and this line's loaders were not tried before.

        Return whether anything was tried. If so, the workers have finished all batches that they had begun.
        """
        seconds = float(os.environ.get("SPDL_ADVISE_TRIAL", "0"))
        if not seconds or site in self._tried or times.steps < _LEAST_STEPS or times.all_share() < _LEAST_SHARE:
            return False
        if not at_end and (times.steps < _STEPS_WITHIN or perf_counter() - self._began < _SECONDS_WITHIN):
            return False
        self._tried.add(site)
        # The ranks of a job would take the cores from each other.
        if os.environ.get("RANK", "0") != "0" or threading.current_thread() is not threading.main_thread():
            return False
        found = {"kind": "trial", "site": site, "seconds": seconds, **_try_in_copy(loader, times, seconds)}
        RecordFile(f"trial-{os.getpid()}-{len(self._tried)}.json", lambda: found).write()
        return True


TRIALS = Trials()


def _try_in_copy(loader: Any, times: LoaderTimes, seconds: float) -> dict[str, Any]:
    reader, writer = os.pipe()
    parent = os.getpid()
    # The copy has what was not written yet as well.
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    with warnings.catch_warnings():
        # Newer Pythons warn of threads: a copy that waits for one is given up.
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        # No line of this may return to the job's code.
        try:
            _in_copy(writer, parent, loader, times, seconds)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        return _last_told(reader, _LONGEST_START + 4 * seconds)
    finally:
        os.close(reader)
        for kill in (os.kill, os.killpg):
            with suppress(ProcessLookupError):
                kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _last_told(reader: int, seconds: float) -> dict[str, Any]:
    """Return what the copy has told last, which tells all again after each turn.

    A copy of a process may wait forever for a thread that it lacks, so a turn may take this many seconds.
    """
    told, rest = {"error": "the copy of the process that tries it has died"}, b""
    while not told.get("done"):
        if not select.select([reader], [], [], seconds)[0]:
            return {**told, "error": f"no turn ended in {seconds:.0f} s"}
        part = os.read(reader, 1 << 16)
        if not part:
            break
        *lines, rest = (rest + part).split(b"\n")
        if lines:
            told = json.loads(lines[-1])
    return told


def _in_copy(writer: int, parent: int, loader: Any, times: LoaderTimes, seconds: float) -> None:
    os.setsid()  # So that it ends together with the workers that it starts.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    if "logging" in sys.modules:
        sys.modules["logging"].disable()

    def tell(found: dict[str, Any]) -> None:
        left = json.dumps(found).encode() + b"\n"
        while left:
            left = left[os.write(writer, left) :]

    try:
        with os.fdopen(nowhere, "w") as unseen, redirect_stdout(unseen), redirect_stderr(unseen):
            for found in _try_ways(loader, times, seconds):
                if os.getppid() != parent:
                    return
                tell(found)
    except BaseException as error:  # noqa: BLE001 - told on the page.
        tell({"error": _words(error), "done": True})


def _words(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _try_ways(loader: Any, times: LoaderTimes, seconds: float) -> Iterator[dict[str, Any]]:
    # Threads of OpenMP are not there after a fork. PyTorch's workers have one each, too.
    sys.modules["torch"].set_num_threads(1)
    ours, missing, step = None, "", _Step(times)
    try:
        ours = import_module("spdl.dataloader").PyTorchDataLoader
    except Exception as error:  # noqa: BLE001 - the job has another Python.
        missing = f"the job's Python cannot import spdl.dataloader ({_words(error)})"
    onward = None if loader.batch_sampler is None else Onward(loader.batch_sampler)
    ways = list(_ways(loader, ours))
    found = [{**about, "batches": [], "seconds": [], "starts": [], "ends": [], "error": ""} for about, _ in ways]
    all_known = {
        "missing": missing,
        "step_seconds": step.seconds,
        "step_cpu": step.cpu_seconds,
        "step_alone": step.alone,
        "ways": found,
    }
    for _ in range(_TURNS):
        for number, (_, make) in enumerate(ways):
            if not found[number]["error"]:
                _take_turn(found[number], partial(_begun, make, onward), step, seconds / _TURNS)
                yield all_known
    yield {**all_known, "done": True}


class Onward:
    """The batches of a sampler. Each iteration continues after the last one.

    So no turn reads files that another turn has just read, and rare items come as rarely as in the job.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._left: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        batch = next(self._left, _END)
        if batch is _END:
            self._left = iter(self._sampler)
            batch = next(self._left, _END)
        # `yield from` would end a sampler that is a generator together with this one.
        while batch is not _END:
            yield batch
            batch = next(self._left, _END)

    def __len__(self) -> int:
        return len(self._sampler)


def _begun(make: Callable[[], Any], onward: Onward | None) -> tuple[Any, int]:
    """Return an iterator of a loader, and how many batches it may have ready."""
    loader = make()
    if onward is not None and "batch_sampler" in vars(loader):
        vars(loader)["batch_sampler"] = onward
    workers = int(getattr(loader, "num_workers", _READY))
    return iter(loader), workers * int(getattr(loader, "prefetch_factor", None) or _READY)


def _ways(loader: Any, ours: Any) -> Iterator[tuple[dict[str, Any], Callable[[], Any]]]:
    """Yield what is tried, the job's own way first, each with what makes its loader."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    now = int(loader.num_workers)
    several = now or cores
    yield {"what": "now", "workers": now, "reason": ""}, lambda: copied(loader, now)
    if ours is not None:
        choice, many = copied(ours.like(loader), several).worker_choice, min(4 * several, _MOST_THREADS)
        known = {"what": choice.kind, "reason": choice.reason}
        # The choice does not depend on their sampler.
        chosen = ours.like(loader, workers=choice.kind)
        yield {**known, "workers": several}, lambda: copied(chosen, several)
        threads = chosen
        if choice.kind == "process":
            known, threads = {**known, "what": "unproven thread"}, ours.like(loader, workers="thread")
            yield {**known, "workers": several}, lambda: copied(threads, several)
        if many > several:
            yield {**known, "workers": many}, lambda: copied(threads, many)
    if now < cores:
        yield {"what": "more", "workers": cores, "reason": ""}, lambda: copied(loader, cores)
    photos = photos_in(copied(loader, 0)) if ours is not None else None
    if photos is not None:
        yield {"what": "images", "workers": cores, "reason": str(photos)}, lambda: photos.loader(cores)


def copied(loader: Any, workers: int) -> Any:
    """Return a copy of a loader with another number of workers. It is not measured, and keeps no workers."""
    copied = object.__new__(type(loader))
    vars(copied).update(vars(loader))
    for name in [name for name in vars(copied) if name.startswith("_spdl_advise")]:
        del vars(copied)[name]
    # Persistent workers belong to the job.
    vars(copied).update(_iterator=None, num_workers=workers, pin_memory=False, persistent_workers=False)
    if workers and copied.prefetch_factor is None:
        vars(copied).update(prefetch_factor=_READY)
    return copied


class _Step:
    """Stands in for the job's step: it computes without the GIL as long as that does, and rests for the rest of it."""

    def __init__(self, times: LoaderTimes) -> None:
        self.alone = times.ahead_steps > 1
        count = times.ahead_steps if self.alone else times.steps
        # Workers that the job has now may take the cores that a step wants.
        with_cores = max(0.0, times.step_seconds - times.coreless_seconds)
        self.seconds = (times.ahead_seconds if self.alone else with_cores) / count
        self.cpu_seconds = (times.ahead_cpu if self.alone else times.step_cpu) / count

    def __call__(self) -> None:
        end = perf_counter() + self.seconds
        # PyTorch's own threads compute on several cores.
        cores = max(1, round(self.cpu_seconds / max(self.seconds, 1e-9)))
        each = min(self.seconds, self.cpu_seconds / cores)
        others = [threading.Thread(target=_compute, args=(each,)) for _ in range(cores - 1)]
        for other in others:
            other.start()
        _compute(each)
        for other in others:
            other.join()
        sleep(max(0.0, end - perf_counter()))


def _compute(seconds: float) -> None:
    from hashlib import sha256  # noqa: PLC0415 - the job may not need it.

    end = thread_time() + seconds
    while thread_time() < end:
        sha256(_BLOCK)


def _take_turn(
    way: dict[str, Any], begin: Callable[[], tuple[Any, int]], step: Callable[[], None], seconds: float
) -> None:
    batches, spent, began = 0, 0.0, perf_counter()
    try:
        while spent < seconds and perf_counter() - began < 2 * seconds + _LONGEST_START:
            asked_at = perf_counter()
            iterator, ready = begin()
            next(iterator)
            since = perf_counter()
            way["starts"].append(since - asked_at)
            left, taken, warm_until = seconds - spent, 0, since + seconds
            while True:
                step()
                taken += 1
                # Batches that were made while the first one was waited for say nothing about the rate. Where iterations
                # are short, they belong to it.
                if ready and not spent and (taken >= ready or perf_counter() > warm_until):
                    ready, taken, since = 0, 0, perf_counter()
                elif perf_counter() - since >= left:
                    break
                if next(iterator, _END) is _END:
                    break
            now = perf_counter()
            batches, spent = batches + taken, spent + now - since
            del iterator
            way["ends"].append(perf_counter() - now)
    except StopIteration:
        way["error"] = "it has no batch"
    except BaseException as error:  # noqa: BLE001 - told on the page.
        way["error"] = _words(error)
    way["batches"].append(batches)
    way["seconds"].append(spent)
