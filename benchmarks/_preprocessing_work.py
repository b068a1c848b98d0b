"""Run one contender of `preprocessing.py` in a process of its own: load a folder in batches and print the cost.

It runs under the contender's interpreter, which may be that of the released reference, so it imports nothing else. Each
contender delivers all photos of a folder, in several passes, as batches of 32 of 224 x 224. Imports are not measured;
the start and the end of the workers are.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH_SIZE = 32
SIZE = 224


def image_by_image() -> Callable[[list[str], int], Iterator[int]]:
    """Return the second document's flow as it is written there, which is the same for ours and the reference."""
    import spdl.io  # noqa: PLC0415 - each contender's process has only its own library.
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415

    filter_desc = spdl.io.get_video_filter_desc(scale_width=SIZE, scale_height=SIZE)

    def decode(path: str) -> Any:
        return spdl.io.decode_packets(spdl.io.demux_image(path), filter_desc=filter_desc)

    def convert(frames: list[Any]) -> Any:
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def load(paths: list[str], workers: int) -> Iterator[int]:
        pipeline = (
            PipelineBuilder()
            .add_source(paths)
            .pipe(decode, concurrency=workers)
            .aggregate(BATCH_SIZE)
            .pipe(convert)
            .add_sink(workers)
            .build(num_threads=workers)
        )
        with pipeline.auto_stop():
            for batch in pipeline:
                yield len(batch)

    return load


def batch_call() -> Callable[[list[str], int], Iterator[int]]:
    """Return our `load_image_batch`, one call per batch, with the resize of the flow above."""
    import spdl.io  # noqa: PLC0415
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415

    def load_batch(paths: list[str]) -> Any:
        return spdl.io.to_numpy(spdl.io.load_image_batch(paths, width=SIZE, height=SIZE))

    def load(paths: list[str], workers: int) -> Iterator[int]:
        pipeline = (
            PipelineBuilder()
            .add_source(paths)
            .aggregate(BATCH_SIZE)
            .pipe(load_batch, concurrency=workers)
            .add_sink(workers)
            .build(num_threads=workers)
        )
        with pipeline.auto_stop():
            for batch in pipeline:
                yield len(batch)

    return load


def torch_dataloader() -> Callable[[list[str], int], Iterator[int]]:
    """Return PyTorch's DataLoader as the second document uses it: Pillow, a bilinear stretch, tensors, collate."""
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    class Photos:
        def __init__(self, paths: list[str]) -> None:
            self.paths = paths

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, index: int) -> Any:
            with Image.open(self.paths[index]) as file:
                image = file.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
            return torch.from_numpy(np.array(image)).permute(2, 0, 1)

    def load(paths: list[str], workers: int) -> Iterator[int]:
        torch.set_num_threads(1)
        loader = torch.utils.data.DataLoader(
            Photos(paths),
            batch_size=BATCH_SIZE,
            num_workers=workers,
            prefetch_factor=1,
            multiprocessing_context="fork",
        )
        for batch in loader:
            yield len(batch)

    return load


def bare_decoder() -> Callable[[list[str], int], Iterator[int]]:
    """Return libjpeg-turbo alone, with a decoder per thread: bytes in memory, full size, nothing kept."""
    # The folder is made to be run as a program, and its modules find each other by its path.
    sys.path.append(str(Path(__file__).with_name("_images_work")))
    from bare import decoder as make_decoder  # noqa: PLC0415

    def load(paths: list[str], workers: int) -> Iterator[int]:
        unique = sorted(set(paths))
        decoders = [make_decoder(unique) for _ in range(workers)]
        start_measuring()
        shares = [paths[index::workers] for index in range(workers)]

        def decode(number: int) -> int:
            decoders[number](shares[number])
            return len(shares[number])

        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(decode, range(workers))

    return load


CONTENDERS = {"seed": image_by_image, "batch": batch_call, "torch": torch_dataloader, "bare": bare_decoder}

began: list[float] = []


def cpu_seconds() -> float:
    """Return the user and system time of this process and of the children that it has waited for."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def start_measuring() -> None:
    """Start the clocks."""
    began[:] = time.perf_counter(), cpu_seconds()


def main() -> None:
    """Load once to warm up, measure, print the figures."""
    options = json.loads(sys.argv[1])
    paths = sorted(str(path) for path in Path(options["folder"]).glob("*.jpg"))
    load = CONTENDERS[options["contender"]]()
    # A loop that runs for hours has long loaded what a library loads at its first call.
    for _ in load(paths[:BATCH_SIZE], options["workers"]):
        pass
    start_measuring()
    first = 0.0
    images = 0
    for number in load(paths * options["passes"], options["workers"]):
        first = first or time.perf_counter() - began[0]
        images += number
    seconds, cpu = time.perf_counter() - began[0], cpu_seconds() - began[1]
    if images != len(paths) * options["passes"]:
        raise SystemExit(f"{images} images came instead of {len(paths) * options['passes']}")
    print(
        json.dumps(
            {
                "images_per_second": images / seconds,
                "cpu_ms_per_image": 1000 * cpu / images,
                "first_batch_seconds": first,
                "peak_mib_of_the_main_process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        ),
        flush=True,
    )
    # The libraries' work at the end of a process is not measured, and skipped.
    os._exit(0)


if __name__ == "__main__":
    main()
