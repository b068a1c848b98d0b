"""Test the reference's published examples of pipelines, which must work as they are written.

As in those, annotations are evaluated in this module.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from io import BytesIO
from multiprocessing import get_context
from typing import Any, Generic, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from spdl.pipeline import Pipeline, PipelineBuilder

T = TypeVar("T")


class DataSource(Generic[T]):
    """Keep yielding the same data given times."""

    def __init__(self, data: T, repeat: int) -> None:
        self.data = data
        self.repeat = repeat

    def __iter__(self) -> Iterator[T]:
        for _ in range(self.repeat):
            yield self.data


def load_npy(items: list[bytes]) -> list[NDArray[Any]]:
    return [np.load(BytesIO(item), allow_pickle=False) for item in items]


def get_pipeline(
    src: Iterable[T], load_fn: Callable[[T], list[NDArray[Any]]], num_workers: int, mode: str
) -> tuple[Pipeline, ThreadPoolExecutor | ProcessPoolExecutor]:  # type: ignore[type-arg] # As it is written.
    executor: ThreadPoolExecutor | ProcessPoolExecutor
    match mode:
        case "mt":
            executor = ThreadPoolExecutor(num_workers)
        case "mp":
            executor = ProcessPoolExecutor(num_workers, get_context("forkserver"))
        case _:
            raise ValueError(f'The `mode` must be either "mt" or "mp". Found: {mode}')
    pipeline = (
        PipelineBuilder()
        .add_source(src)
        .pipe(load_fn, concurrency=num_workers, executor=executor)
        .add_sink(buffer_size=1)
        .build(num_threads=1)
    )
    return pipeline, executor


def run_pipeline(pipeline: Pipeline[...]) -> tuple[int, float]:  # type: ignore[misc] # As it is written.
    """Run the pipeline and measure the time."""
    t0 = time.monotonic()
    with pipeline.auto_stop():
        num_items = 0
        for _ in pipeline:
            num_items += 1
    return num_items, time.monotonic() - t0


@pytest.mark.parametrize("mode", ["mt", "mp"])
def test_data_formats(mode: str) -> None:
    buffer = BytesIO()
    np.save(buffer, np.arange(10))
    pipeline, executor = get_pipeline(DataSource([buffer.getvalue()] * 3, 50), load_npy, 2, mode)
    with executor:
        num_items, elapsed = run_pipeline(pipeline)
    assert num_items == 50
    assert elapsed > 0


class Dataset:
    """An indexed data set like torchvision's: each item is an image and its class."""

    def __len__(self) -> int:
        return 70

    def __getitem__(self, index: int) -> tuple[NDArray[Any], int]:
        return np.full((2, 2), index), index % 3


def collate(items: list[tuple[NDArray[Any], int]]) -> tuple[NDArray[Any], list[int]]:
    images, classes = list(zip(*items, strict=True))
    return np.stack(images), list(classes)


def test_migration_from_pytorch() -> None:
    dataset = Dataset()
    num_workers, prefetch_factor = 4, 2
    pipeline = (
        PipelineBuilder()
        .add_source(range(len(dataset)))
        .pipe(
            dataset.__getitem__,
            concurrency=num_workers,
            output_order="input",
        )
        .aggregate(32)
        .pipe(collate)
        .add_sink(prefetch_factor)
        .build(num_threads=num_workers)
    )
    batches = []
    with pipeline.auto_stop():
        for batch, classes in pipeline:
            batches.append((batch[:, 0, 0].tolist(), classes))
    indices = list(range(70))
    parts = (indices[:32], indices[32:64], indices[64:])
    assert batches == [(part, [index % 3 for index in part]) for part in parts]


@pytest.mark.parametrize("batch_size", [None, 32])
@pytest.mark.parametrize("normalize", [False, True])
def test_multi_thread_preprocessing(batch_size: int | None, *, normalize: bool) -> None:
    """The builder is kept in a variable and grows step by step. The loop is left early."""
    dataset = Dataset()
    num_workers, max_items = 4, 2
    builder = (
        PipelineBuilder()
        .add_source(range(len(dataset)))
        .pipe(dataset.__getitem__, concurrency=num_workers)
        .aggregate(batch_size or 1)
        .pipe(collate)
    )
    if normalize:
        builder = builder.pipe(lambda item: (item[0] / 255, item[1]))
    builder = builder.add_sink(num_workers)
    pipeline = builder.build(num_threads=num_workers)
    num_items = 0
    with pipeline.auto_stop():
        for i, (data, _) in enumerate(pipeline, start=1):
            num_items += 1 if data.ndim == 2 else len(data)
            if i >= max_items:
                break
    assert num_items == max_items * (batch_size or 1)
