"""Measure calls per second of one function, in a loop in one or several threads."""

from __future__ import annotations

import io
import resource
import tarfile
import threading
import time
from typing import TYPE_CHECKING, Any

import data
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


def npy(*, by: str, threads: int, calls: int) -> dict[str, float]:
    """Load two .npy files."""
    files = data.npy("noise")
    if by == "numpy":
        return timed(lambda: [np.load(io.BytesIO(file), allow_pickle=False) for file in files], threads, calls)
    load = spdl_io().load_npy
    return timed(lambda: [load(file) for file in files], threads, calls)


def npz(*, by: str, kind: str, compression: str, threads: int, calls: int) -> dict[str, float]:
    """Load both arrays of a .npz file."""
    file = data.npz(kind, compression)
    if by == "numpy":
        return timed(lambda: list(np.load(io.BytesIO(file)).values()), threads, calls)
    load = spdl_io().load_npz
    return timed(lambda: list(load(file).values()), threads, calls)


def torch_load(*, threads: int, calls: int) -> dict[str, float]:
    """Load both arrays of a file of torch.save."""
    import torch  # noqa: PLC0415 - other contenders' environments need not have it.

    file = data.torch_file("noise")
    return timed(lambda: list(torch.load(io.BytesIO(file)).values()), threads, calls)


def npz_batch(*, kind: str, size: int, num_threads: int, calls: int) -> dict[str, float]:
    """Load a number of .npz files as one batch. Each file counts as a call."""
    files = [data.npz(kind, "deflated")] * size
    load = spdl_io().load_npz_batch
    figures = timed(lambda: load(files, num_threads=num_threads), 1, calls // size)
    return figures | {key: figures[key] * size for key in ("calls_per_second", "calls_per_cpu_second")}


def tar(*, by: str, calls: int) -> dict[str, float]:
    """Go through an archive and take the name and the content of every file."""
    archive = data.tar()
    if by == "tarfile":

        def read() -> list[tuple[str, bytes]]:
            with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
                return [(it.name, opened.extractfile(it).read()) for it in opened]  # type: ignore[union-attr]

        return timed(read, 1, calls)
    iterate = spdl_io().iter_tarfile
    return timed(lambda: list(iterate(archive)), 1, calls)


def wav(*, by: str, calls: int) -> dict[str, float]:
    """Load the samples of a sound."""
    sound = data.wav()
    if by == "soundfile":
        import soundfile  # noqa: PLC0415 - other contenders' environments need not have it.

        return timed(lambda: soundfile.read(io.BytesIO(sound), dtype="int16"), 1, calls)
    load = spdl_io().load_wav
    return timed(lambda: load(sound), 1, calls)


def spdl_io() -> Any:
    """Import `spdl.io`, which both packages have under that name. The bare contenders do without it."""
    import spdl.io  # noqa: PLC0415

    return spdl.io


def timed(call: Callable[[], Any], threads: int, calls: int) -> dict[str, float]:
    """Call a function a number of times in each of several threads at once."""
    for _ in range(max(calls // 20, 2)):
        call()
    barrier = threading.Barrier(threads + 1)

    def loop() -> None:
        barrier.wait()
        for _ in range(calls):
            call()

    workers = [threading.Thread(target=loop) for _ in range(threads)]
    for worker in workers:
        worker.start()
    barrier.wait()
    cpu, begin = time.process_time(), time.perf_counter()
    for worker in workers:
        worker.join()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return {
        "calls_per_second": threads * calls / seconds,
        "calls_per_cpu_second": threads * calls / cpu,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
