"""The works on video. Each takes the name of the module that reads, which has a function for what it needs."""

from __future__ import annotations

import random
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clips import endless_tasks
from measure import Figures, cpu_seconds, memory_mib, peak_mib
from threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 224
FRAMES = 10


def whole(*, folder: str, workers: int, reader: str, clip: str, times: int, **chosen: str) -> Figures:
    """Load a whole clip as RGB of 224x224, or several at once, each in a thread that calls the library.

    An `interpolation` may be chosen where the reader takes one; otherwise it is bilinear.
    """
    load = import_module(reader).load
    return _frames(lambda path: int(load(path, SIZE, **chosen)), str(Path(folder) / clip), workers, times)


def by_calls(*, folder: str, workers: int, reader: str, clip: str, times: int, interpolation: str) -> Figures:
    """Do the work of `whole` with the calls that both versions of the library have."""
    load = import_module(reader).by_calls
    return _frames(lambda path: int(load(path, SIZE, interpolation)), str(Path(folder) / clip), workers, times)


def filtered(*, folder: str, workers: int, reader: str, clip: str, times: int) -> Figures:
    """Do the work of `whole` with FFmpeg's filters."""
    load = import_module(reader).filtered
    return _frames(lambda path: int(load(path, SIZE)), str(Path(folder) / clip), workers, times)


def decoded(*, folder: str, workers: int, reader: str, clip: str, times: int) -> Figures:
    """Decode a whole clip, and leave the frames as they come out of the decoder."""
    decode = import_module(reader).decode
    return _frames(lambda path: int(decode(path)), str(Path(folder) / clip), workers, times)


def picked(*, folder: str, workers: int, reader: str, clip: str, times: int) -> Figures:
    """Load random frames of a clip by their index, as RGB of full size. Opening it is not measured."""
    _one(workers)
    frames, get = import_module(reader).opened(str(Path(folder) / clip))
    chance = random.Random(0)  # noqa: S311
    get(sorted(chance.sample(range(frames), FRAMES)))
    chosen = [sorted(chance.sample(range(frames), FRAMES)) for _ in range(times)]
    cpu, begin = time.process_time(), time.perf_counter()
    for indices in chosen:
        if len(get(indices)) != FRAMES:
            raise SystemExit("another number of frames came")
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begin
    return {
        "frames_per_cpu_second": FRAMES * times / cpu,
        "frames_per_second": FRAMES * times / seconds,
        "peak_mib": peak_mib(),
    }


def first(*, folder: str, workers: int, reader: str, clip: str, times: int) -> Figures:
    """Open a clip that is in memory, and load its first frame as RGB of full size."""
    _one(workers)
    load = import_module(reader).first
    data = (Path(folder) / clip).read_bytes()
    return _calls(lambda: load(data), times)


def clips(*, folder: str, workers: int, reader: str, loader: str, files: int) -> Figures:
    """Load 8 clips of 16 frames from each of many files, in a whole loader that is ready."""
    run: Callable[[Iterator[Any], int], Iterator[int]] = import_module(reader).LOADERS[loader]
    for _ in run(endless_tasks(folder, 2 * workers), workers):
        pass
    cpu, begin = cpu_seconds(), time.perf_counter()
    loaded, memory = 0, 0.0
    for number in run(endless_tasks(folder, files), workers):
        loaded += number
        if not memory and loaded >= files * 8 * 3 // 4:
            paused, paused_cpu = time.perf_counter(), cpu_seconds()
            memory = memory_mib()
            begin += time.perf_counter() - paused
            cpu += cpu_seconds() - paused_cpu
    cpu, seconds = cpu_seconds() - cpu, time.perf_counter() - begin
    if loaded != files * 8:
        raise SystemExit(f"{loaded} clips came instead of {files * 8}")
    return {"clips_per_second": loaded / seconds, "clips_per_cpu_second": loaded / cpu, "memory_mib": memory}


def _frames(load: Callable[[str], int], path: str, workers: int, times: int) -> Figures:
    for _ in in_threads(load, [path] * workers, workers):
        pass
    cpu, begin = time.process_time(), time.perf_counter()
    frames = sum(in_threads(load, [path] * times, workers))
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begin
    return {
        "frames_per_cpu_second": frames / cpu,
        "frames_per_second": frames / seconds,
        "frames": frames / times,
        "peak_mib": peak_mib(),
    }


def _calls(call: Callable[[], object], times: int) -> Figures:
    for _ in range(3):
        call()
    cpu, begin = time.process_time(), time.perf_counter()
    for _ in range(times):
        call()
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begin
    return {
        "calls_per_cpu_second": times / cpu,
        "milliseconds": 1000 * seconds / times,
        "peak_mib": peak_mib(),
    }


def _one(workers: int) -> None:
    if workers != 1:
        raise SystemExit("this work runs on one thread, so it takes one worker")
