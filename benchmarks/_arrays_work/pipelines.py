"""Measure items per second through a pipeline that loads the same item again and again, in threads or processes."""

from __future__ import annotations

import io
import resource
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import data
import numpy as np
from loads import spdl_io

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def numpy_npy(files: list[bytes]) -> list[Any]:
    """Load .npy files with numpy."""
    return [np.load(io.BytesIO(file), allow_pickle=False) for file in files]


def numpy_npz(file: bytes) -> list[Any]:
    """Load a .npz file with numpy."""
    return list(np.load(io.BytesIO(file)).values())


def spdl_npy(files: list[bytes]) -> list[Any]:
    """Load .npy files with spdl."""
    load = spdl_io().load_npy
    return [load(file) for file in files]


def spdl_npz(file: bytes) -> list[Any]:
    """Load a .npz file with spdl."""
    return list(spdl_io().load_npz(file).values())


def torch_file(file: bytes) -> list[Any]:
    """Load a file of torch.save."""
    import torch  # noqa: PLC0415 - other contenders' environments need not have it.

    return list(torch.load(io.BytesIO(file)).values())


LOADS = {
    "torch": (torch_file, partial(data.torch_file, "noise")),
    "npy": (spdl_npy, partial(data.npy, "noise")),
    "npy-numpy": (numpy_npy, partial(data.npy, "noise")),
    "npz": (spdl_npz, partial(data.npz, "noise", "stored")),
    "npz-numpy": (numpy_npz, partial(data.npz, "noise", "stored")),
    "npz-deflated": (spdl_npz, partial(data.npz, "noise", "deflated")),
    "npz-deflated-numpy": (numpy_npz, partial(data.npz, "noise", "deflated")),
}


def scale(*, load: str, mode: str, counts: list[int], seconds: float) -> dict[str, list[dict[str, float]]]:
    """Measure with each of these numbers of workers, one after the other."""
    function, make = LOADS[load]
    item = make()
    for loaded, saved in zip(function(item), data.arrays("noise").values(), strict=True):
        if not np.array_equal(np.asarray(loaded), saved):
            raise SystemExit("the loaded data differs from the saved data")
    return {"counts": [repeat(function, item, mode, workers, seconds) for workers in counts]}


def repeat(
    function: Callable[[Any], list[Any]], item: Any, mode: str, workers: int, seconds: float
) -> dict[str, float]:
    """Pass an item through a pipeline again and again, for a number of seconds after its first result."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - the same in both packages.

    executor: Executor = ThreadPoolExecutor(workers) if mode == "threads" else ProcessPoolExecutor(workers)
    enough = threading.Event()
    builder: Any = PipelineBuilder().add_source(repeat_until(enough, item))
    builder.pipe(function, concurrency=workers, executor=executor).add_sink(1)
    pipeline = builder.build(num_threads=1)
    count, begin, cpu = 0, 0.0, cpu_seconds()
    with pipeline.auto_stop():
        for _ in pipeline:
            begin = begin or time.perf_counter()
            count += 1
            if time.perf_counter() - begin > seconds:
                enough.set()
    took = time.perf_counter() - begin
    executor.shutdown()
    return {
        "items_per_second": (count - 1) / took,
        "cpu_ms_per_item": 1000 * (cpu_seconds() - cpu) / count,
        "peak_mib_of_the_main_process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def repeat_until(enough: threading.Event, item: Any) -> Iterator[Any]:
    """Yield the item again and again."""
    while not enough.is_set():
        yield item


def cpu_seconds() -> float:
    """Return the user and system time of this process and of the children that it has waited for."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
