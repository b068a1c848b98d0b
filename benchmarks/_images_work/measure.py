"""What work costs: images per second and per CPU-second, and memory."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 32
SIZE = 224

Figures = dict[str, float]


def photos(folder: str) -> list[str]:
    """Return the paths of the photos in a folder."""
    return sorted(str(path) for path in Path(folder).glob("*.jpg"))


def batches(paths: list[str], images: int) -> Iterator[list[str]]:
    """Go through the photos, again and again, until there were so many."""
    endless = cycle(paths)
    for _ in range(images // BATCH):
        yield list(islice(endless, BATCH))


def on_one_thread(load: Callable[[list[str]], object], folder: str, images: int) -> Figures:
    """Call it for each batch, in the calling thread."""
    paths = photos(folder)
    for batch in batches(paths, 4 * BATCH):
        load(batch)
    cpu, begin = time.process_time(), time.perf_counter()
    for batch in batches(paths, images):
        load(batch)
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begin
    return {
        "images_per_cpu_second": images / cpu,
        "images_per_second": images / seconds,
        "peak_mib": peak_mib(),
    }


def whole_loader(run: Callable[[int], Iterator[int]], images: int) -> Figures:
    """Take the batches of a loader that is ready, and count their images.

    Args:
        run: Loads at least so many images, and yields the size of each batch.
        images: How many.
    """
    # What a library does at its first batches, it has done in a loop that runs for hours.
    for _ in run(8 * BATCH):
        pass
    cpu, begin = cpu_seconds(), time.perf_counter()
    loaded, memory = 0, 0.0
    for number in run(images):
        loaded += number
        if not memory and loaded >= images * 3 // 4:
            paused, paused_cpu = time.perf_counter(), cpu_seconds()
            memory = memory_mib()
            begin += time.perf_counter() - paused
            cpu += cpu_seconds() - paused_cpu
    cpu, seconds = cpu_seconds() - cpu, time.perf_counter() - begin
    if loaded < images:
        raise SystemExit(f"{loaded} images came instead of {images}")
    return {
        "images_per_second": loaded / seconds,
        "images_per_cpu_second": loaded / cpu,
        "memory_mib": memory,
    }


def cpu_seconds() -> float:
    """User and system time of this process and of its children, those that still work included."""
    done = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = os.sysconf("SC_CLK_TCK")
    alive = 0.0
    for child in children(os.getpid()):
        with suppress(OSError):  # Gone meanwhile.
            # The name, in parentheses, may hold anything; user and system time are the 12th and 13th after it.
            after_name = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            alive += (int(after_name[11]) + int(after_name[12])) / ticks
    return time.process_time() + done.ru_utime + done.ru_stime + alive


def memory_mib() -> float:
    """What this process and its children hold now; a page that several of them hold counts once.

    What is of no file is held by them alone: 1/n of a page that n of them hold counts in each. Pages of files, those of
    libraries above all, may be held by others that are none of theirs: those of the process that has most count.
    """
    held = [_pages(os.getpid())]
    for child in children(os.getpid()):
        with suppress(OSError, KeyError):  # Gone meanwhile, or has ended and is not waited for.
            held.append(_pages(child))
    return (sum(of_none for of_none, _ in held) + max(of_files for _, of_files in held)) / 1024


def _pages(process: int) -> tuple[int, int]:
    """Return how many KiB a process holds that are of no file, as its share, and of files."""
    of_files = _fields(f"/proc/{process}/status")["RssFile"]
    shares = _fields(f"/proc/{process}/smaps_rollup")
    return shares["Pss_Anon"] + shares["Pss_Shmem"], of_files


def peak_mib() -> float:
    """The most that this process held; what `getrusage` tells would begin at what its parent held."""
    return _fields("/proc/self/status")["VmHWM"] / 1024


def resident_mib() -> float:
    """What this process holds now, counted faster than by `memory_mib`, which walks all pages."""
    return _fields("/proc/self/status")["VmRSS"] / 1024


def children(process: int) -> list[int]:
    """Return the numbers of its child processes."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # A thread that has ended meanwhile.
            found += [int(number) for number in (task / "children").read_text(encoding="utf-8").split()]
    return found


def _fields(file: str) -> dict[str, int]:
    """Return what a file of the kernel's says in KiB."""
    lines = [line.split() for line in Path(file).read_text(encoding="utf-8").splitlines()]
    return {words[0].removesuffix(":"): int(words[1]) for words in lines if words[-1] == "kB"}
