"""The cost of work: images per second and per CPU-second, and memory."""

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
SUFFIXES = {".jpg", ".png", ".webp", ".avif", ".jp2", ".tif", ".gif", ".bmp", ".ppm"}

Figures = dict[str, float]


def photos(folder: str) -> list[str]:
    """Return the paths of the photos in a folder."""
    return sorted(str(path) for path in Path(folder).iterdir() if path.suffix in SUFFIXES)


def batches(paths: list[str], images: int) -> Iterator[list[str]]:
    """Yield batches of the photos, over and over, until there are enough images."""
    endless = cycle(paths)
    for _ in range(images // BATCH):
        yield list(islice(endless, BATCH))


def on_one_thread(load: Callable[[list[str]], object], folder: str, images: int) -> Figures:
    """Call a function for each batch, in the calling thread."""
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
        run: Loads at least a given number of images, and yields the size of each batch.
        images: That number.
    """
    # A loop that runs for hours has long done what a library does at its first batches.
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
    """Return the user and system time of this process and of its children, including running ones."""
    done = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = os.sysconf("SC_CLK_TCK")
    alive = 0.0
    for child in children(os.getpid()):
        with suppress(OSError):  # The process has ended meanwhile.
            # The name, in parentheses, may hold anything. User and system time are the 12th and 13th field after it.
            after_name = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            alive += (int(after_name[11]) + int(after_name[12])) / ticks
    return time.process_time() + done.ru_utime + done.ru_stime + alive


def memory_mib() -> float:
    """Return the memory that this process and its children hold now. A page that several of them hold counts once.

    Anonymous pages are held by them alone, so 1/n of a page that n of them hold counts in each. Pages of files, mostly
    of libraries, may be shared with unrelated processes, so only those of the process with the most of them count.
    """
    held = [_pages(os.getpid())]
    for child in children(os.getpid()):
        with suppress(OSError, KeyError):  # The process has gone, or has ended and is not waited for.
            held.append(_pages(child))
    return (sum(of_none for of_none, _ in held) + max(of_files for _, of_files in held)) / 1024


def _pages(process: int) -> tuple[int, int]:
    """Return a process's share of anonymous memory and its memory of files, in KiB."""
    of_files = _fields(f"/proc/{process}/status")["RssFile"]
    shares = _fields(f"/proc/{process}/smaps_rollup")
    return shares["Pss_Anon"] + shares["Pss_Shmem"], of_files


def peak_mib() -> float:
    """Return the most memory that this process held. The value of `getrusage` would start at its parent's."""
    return _fields("/proc/self/status")["VmHWM"] / 1024


def resident_mib() -> float:
    """Return the memory that this process holds now. This is faster than `memory_mib`, which walks all pages."""
    return _fields("/proc/self/status")["VmRSS"] / 1024


def children(process: int) -> list[int]:
    """Return the numbers of a process's child processes."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # The thread has ended meanwhile.
            found += [int(number) for number in (task / "children").read_text(encoding="utf-8").split()]
    return found


def _fields(file: str) -> dict[str, int]:
    """Return the values of a file of the kernel's, in KiB."""
    lines = [line.split() for line in Path(file).read_text(encoding="utf-8").splitlines()]
    return {words[0].removesuffix(":"): int(words[1]) for words in lines if words[-1] == "kB"}
