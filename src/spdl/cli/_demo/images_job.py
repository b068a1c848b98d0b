"""The main job: turn a folder of images into decoded, resized, batched arrays."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from spdl._cores import available_cores

# Importing a native class loads the native part now, so that the first batch does not wait for it.
from spdl.io import CPUBuffer, load_image, load_image_batch
from spdl.pipeline import Pipeline, PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RESIZE_MODE: Final = "pad"
INTERPOLATION: Final = "bicubic"
"""The resize of the reference's own benchmark flow, and this library's default. Every contender does the same."""
BATCHES_AHEAD = 3
"""Finished batches that may wait for the consumer."""


def default_threads() -> int:
    """Return how many threads decode by default: one per core that this process may use."""
    return max(1, int(available_cores()))


def images_pipeline(source: Iterable[Sequence[str]], load: LoadImages, workers: int) -> Pipeline[CPUBuffer]:
    """Return the pipeline, which turns lists of paths into uint8 batches `(len(paths), size, size, 3)`."""
    return (
        PipelineBuilder()
        .add_source(source)
        .pipe(load, concurrency=workers, name="load_image_batch")
        .add_sink(BATCHES_AHEAD)
        .build(num_threads=workers)
    )


class LoadImages:
    """The decoding stage: one native call per batch. It remembers the files that would not load.

    Attributes:
        failures: The reason for each file that failed, by path.
        num_read: Files tried so far. A file that is read in several passes counts in each.
        num_failed: Files of `num_read` that failed.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self.failures: dict[str, str] = {}
        self.num_read = 0
        self.num_failed = 0

    def __call__(self, paths: Sequence[str]) -> CPUBuffer | None:
        try:
            batch = load_image_batch(
                paths,
                width=self._size,
                height=self._size,
                mode=RESIZE_MODE,
                interpolation=INTERPOLATION,
                strict=False,
            )
        except RuntimeError as error:
            # No file of the batch loaded. None leaves the batch out; its files are reported with the others at the end.
            self._count(paths, {path: _why_not(path, error) for path in paths})
            return None
        self._count(paths, {paths[failure.index]: failure.reason for failure in batch.failures})
        return batch

    def _count(self, paths: Sequence[str], failures: dict[str, str]) -> None:
        with self._lock:
            self.num_read += len(paths)
            self.num_failed += len(failures)
            self.failures.update(failures)


def _why_not(path: str, error: RuntimeError) -> str:
    """Return why a file does not load. If it does load, return the batch's `error`: the file is not at fault."""
    try:
        load_image(path)
    except RuntimeError as reason:
        return str(reason).removeprefix(f"{path}: ")
    raise error


class PassesOverFolder:
    """The source: the folder's paths in batches, pass after pass, until the time is over. It yields at least one batch.

    Files that have failed are left out of later passes.
    """

    def __init__(self, paths: Sequence[str], batch_size: int, seconds: float, load: LoadImages) -> None:
        self._paths = paths
        self._batch_size = batch_size
        self._seconds = seconds
        self._load = load

    def __iter__(self) -> Iterator[list[str]]:
        deadline = time.monotonic() + self._seconds
        while paths := [path for path in self._paths if path not in self._load.failures]:
            for start in range(0, len(paths), self._batch_size):
                yield paths[start : start + self._batch_size]
                if time.monotonic() > deadline:
                    return


def count_images(batch: CPUBuffer) -> int:
    """Return how many images a batch holds, read from the array that a training loop would receive."""
    return len(np.asarray(batch))
