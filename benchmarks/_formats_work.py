"""One contender of `array_formats.py`, in a process of its own: loads a sample many times and prints how fast, as JSON.

It runs under the interpreter of the contender, the released reference's among them, so it imports nothing but that.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
ARRAYS = {
    "img": RNG.integers(256, size=(3, 640, 480), dtype=np.uint8),
    "lbl": RNG.integers(256, size=(640, 480), dtype=np.uint8),
}


def dump(save: Any, *args: Any, **kwargs: Any) -> bytes:
    """Return what a function writes into a file."""
    file = io.BytesIO()
    save(file, *args, **kwargs)
    return file.getvalue()


def sample(kind: str) -> Any:
    """Serialise the arrays."""
    if kind == "npy":
        return [dump(np.save, array) for array in ARRAYS.values()]
    if kind == "torch":
        import torch  # noqa: PLC0415 - one contender has it.

        return dump(lambda file: torch.save({key: torch.from_numpy(it) for key, it in ARRAYS.items()}, file))
    return dump(np.savez_compressed if kind == "npz compressed" else np.savez, **ARRAYS)


def numpy_npy(items: list[bytes]) -> list[Any]:
    """Load npy with numpy."""
    return [np.load(io.BytesIO(item)) for item in items]


def numpy_npz(item: bytes) -> list[Any]:
    """Load npz with numpy."""
    return list(np.load(io.BytesIO(item)).values())


def spdl_npy(items: list[bytes]) -> list[Any]:
    """Load npy with spdl, ours or the reference's."""
    import spdl.io  # noqa: PLC0415 - loaded before the first item that counts.

    return [spdl.io.load_npy(item) for item in items]


def spdl_npz(item: bytes) -> list[Any]:
    """Load npz with spdl, ours or the reference's."""
    import spdl.io  # noqa: PLC0415

    return list(spdl.io.load_npz(item).values())


def torch_load(item: bytes) -> list[Any]:
    """Load PyTorch's format."""
    import torch  # noqa: PLC0415

    return list(torch.load(io.BytesIO(item)).values())


LOADERS = {
    ("numpy", "npy"): numpy_npy,
    ("numpy", "npz"): numpy_npz,
    ("spdl", "npy"): spdl_npy,
    ("spdl", "npz"): spdl_npz,
    ("torch", "torch"): torch_load,
}


def main() -> None:
    """Check what is loaded, load it many times in a pipeline, print the rate."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415

    options = json.loads(sys.argv[1])
    data = sample(options["kind"])
    load = LOADERS[options["library"], options["kind"].partition(" ")[0]]
    for loaded, array in zip(load(data), ARRAYS.values(), strict=True):
        if not np.array_equal(np.asarray(loaded), array):
            raise SystemExit("what was loaded is not what was saved")
    workers = options["workers"]
    pool = {"threads": ThreadPoolExecutor, "processes": ProcessPoolExecutor}[options["mode"]](workers)
    pipeline = (
        PipelineBuilder()
        .add_source(data for _ in range(options["repeat"]))
        .pipe(load, concurrency=workers, executor=pool)
        .add_sink(1)
        .build(num_threads=1)
    )
    cpu, start = cpu_seconds(), time.perf_counter()
    with pipeline.auto_stop():
        items = sum(1 for _ in pipeline)
    seconds = time.perf_counter() - start
    pool.shutdown()
    if items != options["repeat"]:
        raise SystemExit(f"{items} samples came instead of {options['repeat']}")
    figures = {
        "samples_per_second": items / seconds,
        "cpu_ms_per_sample": 1000 * (cpu_seconds() - cpu) / items,
        "peak_mib_of_the_main_process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)


def cpu_seconds() -> float:
    """User and system time of this process and of the children it has waited for."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
