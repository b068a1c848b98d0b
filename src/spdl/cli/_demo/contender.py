"""Run one turn of one contender, as a program in the contender's own interpreter: `python contender.py JOB.json`.

The program stands alone. In the other environments, spdl-turbo cannot be imported, and `spdl` is the reference.

It imports what it needs, runs, and prints a JSON line with its name, its version and the figures, which exclude
imports, and include the workers' start and end.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Load = Callable[["Job"], Iterator[int]]
    """A function that runs a job and yields the number of images in each batch."""


# The paths of the images, how many are in a batch, how large they become, how many workers and for how many seconds.
Job = dict[str, Any]


def spdl_turbo() -> tuple[str, Load]:
    """Prepare this package, with exactly the pipeline of the live run."""
    job_module = import_module("spdl.cli._demo.live_run")

    def load(job: Job) -> Iterator[int]:
        source = _batches(job["paths"], job)
        pipeline = job_module.images_pipeline(source, job_module.LoadImages(job["size"]), job["workers"])
        with pipeline.auto_stop():
            for batch in pipeline:
                yield job_module.count_images(batch)

    return f"spdl-turbo {import_module('spdl').__version__}", load


def torch_dataloader() -> tuple[str, Load]:
    torch = import_module("torch")
    data = import_module("torch.utils.data")
    numpy = import_module("numpy")
    pillow = import_module("PIL.Image")
    pillow_ops = import_module("PIL.ImageOps")

    class Images:
        def __init__(self, paths: list[str], size: int) -> None:
            self._paths = paths
            self._size = (size, size)

        def __len__(self) -> int:
            return len(self._paths)

        def __getitem__(self, index: int) -> Any:
            with pillow.open(self._paths[index]) as image:
                padded = pillow_ops.pad(image.convert("RGB"), self._size, pillow.Resampling.BICUBIC)
            # A copy, because torch warns about Pillow's read-only memory.
            return torch.from_numpy(numpy.array(padded))

    def load(job: Job) -> Iterator[int]:
        loader = data.DataLoader(
            Images(job["paths"], job["size"]),
            batch_sampler=_batches(range(len(job["paths"])), job),
            num_workers=job["workers"],
            multiprocessing_context="fork",
        )
        for batch in loader:
            yield len(batch)

    return f"PyTorch {torch.__version__} DataLoader, Pillow {version('pillow')}", load


def spdl_reference() -> tuple[str, Load]:
    """Prepare the reference, in the flow of its benchmark `multi_thread_preprocessing`."""
    io = import_module("spdl.io")
    pipeline_module = import_module("spdl.pipeline")

    def load(job: Job) -> Iterator[int]:
        # The reference's default: bicubic, the aspect ratio kept, padded with black.
        filter_desc = io.get_video_filter_desc(scale_width=job["size"], scale_height=job["size"])

        def decode(path: str) -> Any:
            return io.decode_packets(io.demux_image(path), filter_desc=filter_desc)

        def convert(frames: list[Any]) -> Any:
            return io.to_numpy(io.convert_frames(frames))

        pipeline = (
            pipeline_module.PipelineBuilder()
            .add_source(path for batch in _batches(job["paths"], job) for path in batch)
            .pipe(decode, concurrency=job["workers"])
            .aggregate(job["batch_size"])
            .pipe(convert)
            .add_sink(job["workers"])
            .build(num_threads=job["workers"])
        )
        with pipeline.auto_stop():
            for batch in pipeline:
                yield len(batch)

    return f"spdl {version('spdl')} (reference)", load


def _batches(items: Any, job: Job) -> Iterator[Any]:
    """Yield slices of the folder, pass after pass, until the time is over. Every contender finishes its last slices."""
    deadline = time.monotonic() + job["seconds"]
    while True:
        for start in range(0, len(items), job["batch_size"]):
            yield items[start : start + job["batch_size"]]
            if time.monotonic() > deadline:
                return


def _cpu_seconds() -> float:
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _measure(name: str, batches: Iterator[int]) -> dict[str, Any]:
    images = 0
    first_batch = 0.0
    last_batch = 0.0
    cpu_before = _cpu_seconds()
    start = time.perf_counter()
    for num_images in batches:
        last_batch = time.perf_counter() - start
        first_batch = first_batch or last_batch
        images += num_images
    # The loop has ended, so the workers have been shut down and waited for. Their time is in the sum.
    cpu = _cpu_seconds() - cpu_before
    seconds = {"seconds": last_batch, "cpu_seconds": cpu, "first_batch_seconds": first_batch}
    return {"contender": name, "images": images, **seconds}


def _run() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    prepare = {"spdl-turbo": spdl_turbo, "torch": torch_dataloader, "reference": spdl_reference}[job["contender"]]
    name, load = prepare()
    print(json.dumps(_measure(name, load(job))), flush=True)


if __name__ == "__main__":
    _run()
