"""The steps that a loader is asked for, and what each costs.

A loader is opened for one step: it decodes and resizes photo by photo ("decode"), makes batches of them ("batch"),
makes normalised floats of those ("normalise"), or hands these to the GPU ("transfer"). It goes through the photos again
and again until it is closed. What is no loader, but the limit of all, has a step of its own ("bare").
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
"""Seconds, at least, in which what was done ahead is taken."""
AT_REST = 0.004, 0.04
"""CPU-seconds in so many seconds below which nothing works; what does gets more, unless it waits for a core."""
LOOKS_AT_REST = 2
"""How often in a row that must be seen."""
PATIENCE = 5.0
"""Seconds for what was closed to come to rest."""
LOOKS = 3
"""How often memory is looked at, while the loader goes on."""


class UnavailableError(Exception):
    """Raised when a loader has no such step; the message says why."""


def opener(
    module: str, paths: list[str], keywords: dict[str, Any]
) -> Callable[[str, int], AbstractContextManager[Iterator[Any]]]:
    """Return what opens the loader of that module for a step and a number of workers."""
    # What is imported is not part of any first batch.
    open_loader = import_module(module).open_loader
    return lambda step, workers: open_loader(paths, step, workers, **keywords)


def get_ready(*, loader: str) -> dict[str, str]:
    """Import a loader's module, and return the versions of what is installed beside it."""
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
        loader: Its module.
        keywords: What else its `open_loader` takes.
        folder: The photos.
        cases: Steps and numbers of workers; None is the number with which most was loaded so far.
        seconds: How long each is measured.
        sample: A file for the first batch of one worker; None makes none.
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
    # Others have their turns next.
    settle()
    return {"rows": rows}


def fastest(rows: list[dict[str, Any]]) -> int:
    """Return the number of workers with which most was loaded."""
    workers: int = max(rows, key=lambda row: row.get("images_per_second", 0.0))["workers"]
    return workers


def measure_step(
    open_step: Callable[[str, int], AbstractContextManager[Iterator[Any]]], step: str, workers: int, seconds: float
) -> dict[str, float]:
    """Measure one step, from one item to another one, while the loader goes on."""
    to_device = cuda_copy() if step == "transfer" else None
    begin = time.perf_counter()
    with open_step("normalise" if to_device else step, workers) as opened:
        items = map(to_device, opened) if to_device else opened
        check(next(items), step)
        first = time.perf_counter() - begin
        images = len_of(step)
        # What was done ahead while nobody took anything is gone before the clock starts.
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
    """Wait until a loader that was closed works no more, so that the next one has the cores to itself.

    Threads of some loaders go on until the garbage collector finds what holds them.
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
        # Less than before: a child has just ended, and was looked for among the living and the dead in between.
        quiet = quiet + 1 if 0 <= used - before < most else 0


def take(items: Iterator[Any], seconds: float, wave: int) -> int:
    """Take items for so long; return how many they were.

    Workers that began together end together: their items come in waves of so many. It takes whole waves, for one more
    or less would be as much as all that a short time holds.
    """
    begin = time.perf_counter()
    for number, _ in enumerate(items, start=1):
        if number % wave == 0 and time.perf_counter() - begin >= seconds:
            return number
    raise SystemExit("the loader came to an end")


def len_of(step: str) -> int:
    """How many images an item of that step holds."""
    return 1 if step == "decode" else BATCH


def check(item: Any, step: str) -> None:
    """Say so if an item is not what the step promises."""
    if step not in SHAPES:
        return
    shape, dtype = SHAPES[step]
    found = tuple(item.shape), str(item.dtype).rpartition(".")[2]
    if found != (shape, dtype):
        raise SystemExit(f"{step} gave {found} instead of {(shape, dtype)}")


def save_sample(open_step: Callable[[str, int], AbstractContextManager[Iterator[Any]]], file: Path) -> None:
    """Write the first batch, whose pixels others are compared with."""
    import numpy as np  # noqa: PLC0415 - the bare decoder does without.

    with open_step("batch", 1) as items:
        np.save(file, np.asarray(next(items)))


def cuda_copy() -> Callable[[Any], Any]:
    """Return what copies a batch to the GPU by PyTorch, and waits for it."""
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
