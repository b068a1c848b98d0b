"""The steps of a loader, and the measurement of their cost.

A loader is opened for one step: it decodes and resizes photo by photo ("decode"), makes batches of them ("batch"),
makes normalised floats of those ("normalise"), or copies these to the GPU ("transfer"). It goes through the photos over
and over until it is closed. Bare decoding is not a loader but the limit of all, and has its own step ("bare").
"""

from __future__ import annotations

import gc
import time
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import BATCH, SIZE, cpu_seconds, memory_mib, photos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

STEPS = ("decode", "batch", "normalise", "transfer")
SHAPES = {
    "decode": ((SIZE, SIZE, 3), "uint8"),
    "batch": ((BATCH, SIZE, SIZE, 3), "uint8"),
    "normalise": ((BATCH, 3, SIZE, SIZE), "float32"),
}
SHAPES["transfer"] = SHAPES["normalise"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WARM_UP = 0.1
"""The least number of seconds for consuming what was loaded ahead."""
AT_REST = 0.004, 0.04
"""CPU-seconds, and the seconds of a look in which a resting loader uses less. Working takes more, if it has a core."""
LOOKS_AT_REST = 2
"""How often in a row this must be seen."""
PATIENCE = 5.0
"""Seconds that a closed loader has to become idle."""
LOOKS = 3
"""How often memory is sampled while the loader runs."""


class UnavailableError(Exception):
    """Raised when a loader does not have a step. The message says why."""


def opener(
    module: str, paths: list[str], keywords: dict[str, Any]
) -> Callable[[str, int], AbstractContextManager[Iterator[Any]]]:
    """Return a function that opens the loader of a module for a step and a number of workers."""
    # Import it now, so that the import is not part of any first batch.
    open_loader = import_module(module).open_loader
    return lambda step, workers: open_loader(paths, step, workers, **keywords)


def get_ready(*, loader: str) -> dict[str, str]:
    """Import a loader's module, and return the versions of the distributions installed beside it."""
    import_module(loader)
    return {it.metadata["Name"].replace("_", "-"): it.version for it in distributions()}


def measure(
    *,
    loader: str,
    keywords: dict[str, Any],
    folder: str,
    cases: list[tuple[str, int | None]],
    seconds: float,
    sample: str | None = None,
) -> dict[str, Any]:
    """Measure some steps of one loader, one after the other.

    Args:
        loader: The loader's module.
        keywords: Further arguments of its `open_loader`.
        folder: The folder of photos.
        cases: Steps and numbers of workers. None is the number with the highest rate so far.
        seconds: How long each case is measured.
        sample: A file for the first batch of one worker. None makes none.
    """
    open_step = opener(loader, photos(folder), keywords)
    if sample:
        save_sample(open_step, Path(sample))
    rows: list[dict[str, Any]] = []
    for step, workers in cases:
        settle()
        row: dict[str, Any] = {"step": step, "workers": workers or fastest(rows)}
        try:
            row |= measure_step(open_step, step, row["workers"], seconds)
        except UnavailableError as reason:
            row["unavailable"] = str(reason)
        rows.append(row)
    # Other contenders have their turns next.
    settle()
    return {"rows": rows}


def fastest(rows: list[dict[str, Any]]) -> int:
    """Return the number of workers with the highest rate."""
    workers: int = max(rows, key=lambda row: row.get("images_per_second", 0.0))["workers"]
    return workers


def measure_step(
    open_step: Callable[[str, int], AbstractContextManager[Iterator[Any]]], step: str, workers: int, seconds: float
) -> dict[str, float]:
    """Measure one step, from one item to another, while the loader runs."""
    to_device = cuda_copy() if step == "transfer" else None
    begin = time.perf_counter()
    with open_step("normalise" if to_device else step, workers) as opened:
        items = map(to_device, opened) if to_device else opened
        check(next(items), step)
        first = time.perf_counter() - begin
        images = len_of(step)
        # Consume what was loaded ahead while nobody took anything, before the clock starts.
        take(items, max(WARM_UP, seconds / 4), workers if step != "decode" else BATCH)
        cpu, begin = cpu_seconds(), time.perf_counter()
        taken = take(items, seconds, workers)
        elapsed, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
        memory = 0.0
        for _ in range(LOOKS):
            memory = max(memory, memory_mib())
            take(items, 0.0, 1)
    return {
        "images_per_second": taken * images / elapsed,
        "cpu_ms_per_image": 1000 * cpu / (taken * images),
        "memory_mib": memory,
        "first_seconds": first,
    }


def settle() -> None:
    """Wait until a closed loader no longer works, so that the next one has the cores to itself.

    Threads of some loaders go on until the garbage collector finds the objects that hold them.
    """
    gc.collect()
    most, interval = AT_REST
    end = time.perf_counter() + PATIENCE
    used, quiet = cpu_seconds(), 0
    while quiet < LOOKS_AT_REST:
        if time.perf_counter() > end:
            raise SystemExit(f"it still works {PATIENCE:g} seconds after it was closed")
        time.sleep(interval)
        before, used = used, cpu_seconds()
        # A negative value means: a child has just ended, and was in neither the live nor the dead processes in between.
        quiet = quiet + 1 if 0 <= used - before < most else 0


def take(items: Iterator[Any], seconds: float, wave: int) -> int:
    """Take items for a number of seconds, and return how many there were.

    Workers that started together end together, so their items come in waves of `wave`. Only whole waves are taken: in a
    short time, one wave more or less would change the result by as much as the result itself.
    """
    begin = time.perf_counter()
    for number, _ in enumerate(items, start=1):
        if number % wave == 0 and time.perf_counter() - begin >= seconds:
            return number
    raise SystemExit("the loader came to an end")


def len_of(step: str) -> int:
    """Return how many images an item of a step holds."""
    return 1 if step == "decode" else BATCH


def check(item: Any, step: str) -> None:
    """Raise SystemExit if an item does not have the step's shape or dtype."""
    if step not in SHAPES:
        return
    shape, dtype = SHAPES[step]
    found = tuple(item.shape), str(item.dtype).rpartition(".")[2]
    if found != (shape, dtype):
        raise SystemExit(f"{step} gave {found} instead of {(shape, dtype)}")


def save_sample(open_step: Callable[[str, int], AbstractContextManager[Iterator[Any]]], file: Path) -> None:
    """Write the first batch, so that its pixels can be compared with others."""
    import numpy as np  # noqa: PLC0415 - the bare decoder does without it.

    with open_step("batch", 1) as items:
        np.save(file, np.asarray(next(items)))


def cuda_copy() -> Callable[[Any], Any]:
    """Return a function that copies a batch to the GPU with PyTorch, and waits for it."""
    if find_spec("torch") is None:
        raise UnavailableError("its environment has no PyTorch, which hands batches to the GPU")
    import torch  # noqa: PLC0415

    if not torch.cuda.is_available():
        raise UnavailableError("there is no GPU that PyTorch can use")

    def copy(batch: Any) -> Any:
        copied = torch.as_tensor(batch).cuda()
        torch.cuda.synchronize()
        return copied

    return copy
