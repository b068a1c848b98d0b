"""This package and the released reference. Features of both run with the same code, each in its own environment."""

from __future__ import annotations

import time
from itertools import chain
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from measure import BATCH, SIZE, Figures, batches, on_one_thread, peak_mib, photos, resident_mib, whole_loader
from threads import scaling

import spdl.io

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOKS = 200
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def batch_call(resize: str, *, kernels: str = "", random: bool = False, **keywords: Any) -> Callable[[list[str]], Any]:
    """Return our `load_image_batch`: one native call per batch.

    Args:
        resize: The mode and the interpolation, such as "stretch-bilinear".
        kernels: The instruction set. If empty, it is the one that the processor gets by default.
        random: Whether to crop and flip at random.
        keywords: Further arguments of the call.
    """
    from spdl.io._common.native import native  # noqa: PLC0415 - the reference has no such module.

    if kernels and not native.select_kernels(kernels):
        raise SystemExit(f"this processor does not run {kernels!r}")
    mode, interpolation = resize.split("-")
    keywords |= {"width": SIZE, "height": SIZE, "mode": mode, "interpolation": interpolation}
    if keywords.pop("normalised", False):
        keywords |= {"dtype": "float32", "layout": "NCHW", "mean": MEAN, "std": STD}
    if not random:
        return lambda paths: spdl.io.load_image_batch(paths, **keywords)
    epoch = iter(range(1 << 30))

    def load(paths: list[str]) -> Any:
        indices, now = range(len(paths)), next(epoch)
        return spdl.io.load_image_batch(
            paths,
            crop=spdl.io.random_resized_crop(indices, seed=0, epoch=now),
            flip=spdl.io.random_flip(indices, seed=0, epoch=now),
            **keywords,
        )

    return load


def image_by_image(resize: str) -> tuple[Callable[[Any], Any], Callable[[list[Any]], Any]]:
    """Return functions that demux and decode an image, and convert a batch, as programs for the reference do."""
    mode, interpolation = resize.split("-")
    desc = spdl.io.get_video_filter_desc(
        scale_width=SIZE, scale_height=SIZE, scale_mode="pad" if mode == "pad" else None, scale_algo=interpolation
    )

    def decode(source: Any) -> Any:
        return spdl.io.decode_packets(spdl.io.demux_image(source), filter_desc=desc)

    def convert(frames: list[Any]) -> Any:
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    return decode, convert


def one_thread(
    *, folder: str, images: int, workers: int, flow: str, resize: str, sources: str = "files", **keywords: Any
) -> Figures:
    """Load in the calling thread, from "files", or from "memory" as bare decoding does."""
    if workers != 1:
        raise SystemExit("this work runs on one thread, so it takes one worker")
    load = batch_call(resize, **keywords) if flow == "batch" else _whole_flow(resize)
    if sources == "files":
        return on_one_thread(load, folder, images)
    read = {path: Path(path).read_bytes() for path in photos(folder)}
    return on_one_thread(lambda paths: load([read[path] for path in paths]), folder, images)


def _whole_flow(resize: str) -> Callable[[list[Any]], Any]:
    decode, convert = image_by_image(resize)
    return lambda sources: convert([decode(source) for source in sources])


def loader(*, folder: str, images: int, workers: int, flow: str, resize: str, **keywords: Any) -> Figures:
    """Load in a pipeline."""
    paths = photos(folder)
    run = _pipeline(flow, resize, workers, **keywords)
    return whole_loader(lambda number: run(batches(paths, number)), images)


def stream(*, folder: str, seconds: float, workers: int, flow: str, resize: str, **keywords: Any) -> Figures:
    """Load for a number of seconds, and sample the resident memory meanwhile."""
    paths = photos(folder)
    run = _pipeline(flow, resize, workers, **keywords)
    begin = time.perf_counter()
    images, looks = 0, []
    for number in run(batches(paths, 1 << 40)):
        images += number
        elapsed = time.perf_counter() - begin
        if elapsed > seconds:
            break
        if elapsed > len(looks) * seconds / LOOKS:
            looks.append(resident_mib())
    # The memory in flight varies from sample to sample, and there is less of it at the start.
    early, late = median(looks[len(looks) // 10 : len(looks) // 2]), median(looks[len(looks) // 2 :])
    return {
        "first_half_mib": early,
        "second_half_mib": late,
        "growth": late / early,
        "peak_mib": peak_mib(),
        "images_per_second": images / (time.perf_counter() - begin),
    }


def callers(*, folder: str, workers: int, seconds: float, resize: str, **keywords: Any) -> Figures:
    """Compare a number of threads that call us with one thread."""
    return scaling([batch_call(resize, **keywords)] * workers, photos(folder), seconds)


def _pipeline(flow: str, resize: str, workers: int, **keywords: Any) -> Callable[[Iterator[list[str]]], Iterator[int]]:
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - only these works need it.

    def add_flow(builder: Any) -> Any:
        if flow == "batch":
            load = batch_call(resize, **keywords)
            return builder.pipe(lambda paths: spdl.io.to_numpy(load(paths)), concurrency=workers)
        decode, convert = image_by_image(resize)
        return builder.pipe(decode, concurrency=workers).aggregate(BATCH).pipe(convert)

    def run(source: Iterator[list[str]]) -> Iterator[int]:
        items = source if flow == "batch" else chain.from_iterable(source)
        pipeline = add_flow(PipelineBuilder().add_source(items)).add_sink(workers).build(num_threads=workers)
        with pipeline.auto_stop():
            for batch in pipeline:
                yield len(batch)

    return run
