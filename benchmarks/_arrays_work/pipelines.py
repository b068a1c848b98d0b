"""Items per second through a pipeline that loads the same item again and again, by threads or by processes."""

from __future__ import annotations

import io
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Any

import data
import numpy as np
from loads import spdl_io


def numpy_npy(files: list[bytes]) -> list[Any]:
    """Load .npy files by numpy."""
    return [np.load(io.BytesIO(file), allow_pickle=False) for file in files]


def numpy_npz(file: bytes) -> list[Any]:
    """Load a .npz file by numpy."""
    return list(np.load(io.BytesIO(file)).values())


def spdl_npy(files: list[bytes]) -> list[Any]:
    """Load .npy files by spdl."""
    load = spdl_io().load_npy
    return [load(file) for file in files]


def spdl_npz(file: bytes) -> list[Any]:
    """Load a .npz file by spdl."""
    return list(spdl_io().load_npz(file).values())


def torch_file(file: bytes) -> list[Any]:
    """Load a file of torch.save."""
    import torch  # noqa: PLC0415 - an environment of others need not have it.

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


def scale(*, load: str, mode: str, workers: int, items: int) -> dict[str, float]:
    """Pass so many items through a pipeline with so many workers; the time begins with the first result."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - the same in both packages.

    function, make = LOADS[load]
    executor: Executor = ThreadPoolExecutor(workers) if mode == "threads" else ProcessPoolExecutor(workers)
    builder: Any = PipelineBuilder().add_source(repeat(make(), items))
    builder.pipe(function, concurrency=workers, executor=executor).add_sink(1)
    pipeline = builder.build(num_threads=1)
    count, begin = 0, 0.0
    with pipeline.auto_stop():
        for _ in pipeline:
            begin = begin or time.perf_counter()
            count += 1
    seconds = time.perf_counter() - begin
    executor.shutdown()
    if count != items:
        raise SystemExit(f"{count} items came out of {items}")
    return {"items_per_second": (items - 1) / seconds}
