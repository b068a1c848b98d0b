"""This package and the released reference. Image by image, both run the same code, each in its own environment."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

from measure import BATCH, batches
from ours import batch_call, image_by_image
from pixels import normalise

import spdl.io
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

STRETCH = "stretch-bilinear"


@contextmanager
def open_loader(paths: list[str], step: str, workers: int, *, flow: str) -> Iterator[Iterator[Any]]:
    """Load in a pipeline. `flow` is "seed" for image by image, or "batch" for our one call per batch."""
    builder = in_batches(paths, step, workers) if flow == "batch" else by_image(paths, step, workers)
    pipeline = builder.add_sink(workers).build(num_threads=workers)
    with pipeline.auto_stop():
        yield iter(pipeline)


def in_batches(paths: list[str], step: str, workers: int) -> Any:
    """Read, decode, resize and normalise in one call."""
    load = batch_call(STRETCH, normalised=step == "normalise")
    builder: Any = PipelineBuilder()
    if step == "decode":
        return builder.add_source(cycle(paths)).pipe(lambda it: spdl.io.to_numpy(load([it]))[0], concurrency=workers)
    return builder.add_source(batches(paths, 1 << 40)).pipe(lambda it: spdl.io.to_numpy(load(it)), concurrency=workers)


def by_image(paths: list[str], step: str, workers: int) -> Any:
    """Demux, decode with a filter, and convert, as programs written for the reference do."""
    decode, convert = image_by_image(STRETCH)
    builder: Any = PipelineBuilder().add_source(cycle(paths)).pipe(decode, concurrency=workers)
    if step == "decode":
        return builder.pipe(lambda frames: convert([frames])[0])
    builder = builder.aggregate(BATCH).pipe(convert)
    return builder.pipe(normalise) if step == "normalise" else builder
