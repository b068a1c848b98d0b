"""One contender reads objects from the fault server, and prints its figures as JSON. `benchmarks/store.py` runs it."""

from __future__ import annotations

import functools
import json
import resource
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from tests.store.range_server import Faults, content, running  # noqa: E402 - needs the path above.

SIZE = 100_000
BANDWIDTH = 50e6
LATENCY = 0.04
FAULTS = Faults(seed=26, latency=LATENCY, bandwidth=BANDWIDTH, slow=0.01, busy=0.005, cut=0.002)
THREADS = 64
BATCH = 32
EPOCHS = 7
AT_A_TIME = 1000
"""Objects that fsspec's `cat` returns together."""


def cpu_seconds() -> float:
    """Return the CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def until_it_works(read: Callable[[], Any]) -> Any:
    """Return what a reader without repetitions of its own returns in the end."""
    while True:
        try:
            return read()
        except Exception:  # noqa: BLE001, S112 - whatever the contender raises.
            continue


def by_spdl(url: str, paths: list[str], use: Callable[[str, Any], None]) -> None:
    """Read by `HTTPStore`, with its own settings, in threads that share nothing but the order."""
    from spdl.store import HTTPStore  # noqa: PLC0415

    store, following = HTTPStore(url), iter(paths)

    def read() -> None:
        for path in following:
            use(path, store.get(path))

    threads = [threading.Thread(target=read) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()


def by_fsspec_one(url: str, paths: list[str], use: Callable[[str, Any], None]) -> None:
    """Read by fsspec, file by file."""
    import fsspec  # noqa: PLC0415

    files = fsspec.filesystem("http")
    for path in paths:
        use(path, until_it_works(functools.partial(files.cat_file, f"{url}/{path}")))


def by_fsspec_cat(url: str, paths: list[str], use: Callable[[str, Any], None]) -> None:
    """Read by fsspec's concurrent `cat`, so many at a time, and again and again those that failed."""
    import fsspec  # noqa: PLC0415

    files = fsspec.filesystem("http")
    for start in range(0, len(paths), AT_A_TIME):
        missing = [f"{url}/{path}" for path in paths[start : start + AT_A_TIME]]
        while missing:
            answers = files.cat(missing, on_error="return")
            missing = []
            for name, answer in answers.items():
                if isinstance(answer, bytes):
                    use(name.removeprefix(f"{url}/"), answer)
                else:
                    missing.append(name)


READERS = {"spdl-turbo": by_spdl, "fsspec, file by file": by_fsspec_one, "fsspec, cat": by_fsspec_cat}


def measure_reading(contender: str, count: int) -> dict[str, float]:
    """Read objects, let them go again, and compare the time with that of a line which is never idle."""
    read, paths = READERS[contender], [f"{SIZE}/{number}" for number in range(count)]
    checked = paths[: max(20, count // 10)]
    wrong: list[str] = []
    lengths: list[int] = []

    def check(path: str, found: Any) -> None:
        if bytes(found) != content(path):
            wrong.append(path)

    with running(FAULTS) as url:
        read(url, checked, check)  # Imports, too, and what is made once.
        cpu, start = cpu_seconds(), time.perf_counter()
        read(url, paths, lambda _, found: lengths.append(len(found)))
        elapsed, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    assert not wrong
    assert lengths == [SIZE] * count
    optimum = LATENCY + count * SIZE / BANDWIDTH
    return {
        "objects_per_second": count / elapsed,
        "share_of_optimum": optimum / elapsed,
        "cpu_microseconds": 1e6 * cpu / count,
    }


def measure_batches(contender: str, count: int) -> dict[str, float]:
    """Read batches, one after the other, and return the times that few batches exceed."""
    from spdl.store import HTTPStore  # noqa: PLC0415
    from spdl.store import _server_limits as learnt  # noqa: PLC0415

    if "unhedged" in contender:
        learnt._NEEDED = sys.maxsize  # noqa: SLF001
    seconds = []
    with running(FAULTS) as url, ThreadPoolExecutor(BATCH) as pool:
        store = HTTPStore(url)
        for number in range(-40, count):  # The first teach it what is late.
            start = time.perf_counter()
            paths = [f"{SIZE}/{number}-{index}" for index in range(BATCH)]
            for path, found in zip(paths, pool.map(store.get, paths), strict=True):
                assert len(memoryview(found)) == SIZE, path
            if number >= 0:
                seconds.append(time.perf_counter() - start)
        counted = store.statistics()
        store.close()
    cuts = quantiles(seconds, n=100)
    return {
        "p50_seconds": cuts[49],
        "p99_seconds": cuts[98],
        "extra_bytes_share": counted.hedged_bytes / counted.bytes,
        "hedges": counted.hedges,
    }


def measure_epochs(contender: str, count: int) -> dict[str, float]:  # noqa: ARG001 - as the others.
    """Read an epoch through an empty disk cache, and more through the full one, in turn with files of their own."""
    from spdl.store import CachedStore, HTTPStore, LocalStore  # noqa: PLC0415

    paths = [f"{SIZE}/{number}" for number in range(count)]
    with running(FAULTS) as url, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "files" / str(SIZE)).mkdir(parents=True)
        for path in paths:
            (Path(folder) / "files" / path).write_bytes(content(path))
        inner = HTTPStore(url)
        cached = CachedStore(inner, Path(folder) / "cache", 10**11)
        with ThreadPoolExecutor(THREADS) as pool:
            start = time.perf_counter()
            for _ in pool.map(cached.get, paths):
                pass
            cold = count / (time.perf_counter() - start)
        rates: dict[str, list[float]] = {"warm": [], "local": []}
        local = LocalStore(Path(folder) / "files")
        for _ in range(EPOCHS):
            for name, get in (("warm", cached.get), ("local", local.get)):
                start = time.perf_counter()
                for path in paths:
                    get(path)
                rates[name].append(count / (time.perf_counter() - start))
        assert all(bytes(cached.get(path)) == content(path) for path in paths)
        assert cached.statistics().misses == count
        inner.close()
    return {
        "cold_objects_per_second": cold,
        "warm_objects_per_second": median(rates["warm"]),
        "local_objects_per_second": median(rates["local"]),
        "warm_share_of_local": median(a / b for a, b in zip(rates["warm"], rates["local"], strict=True)),
    }


MEASURES = {"batches": measure_batches, "reading": measure_reading, "epochs": measure_epochs}

if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    print(json.dumps(MEASURES[arguments["work"]](arguments["contender"], arguments["count"])))
