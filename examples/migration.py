#!/usr/bin/env python3
"""Move an image loader from PyTorch's DataLoader to a Pipeline in three steps, and see how much each step gains.

1. The unchanged dataset, in threads instead of processes, yielding single images.
2. Batches, made by aggregate and PyTorch's own collate function. This step often gains nothing, since every image is
   still a separate tensor before the batch is made.
3. `spdl.io` instead of Pillow: images stay frames until the batch is made, in one copy. This is measured with batches
   of 32 to 256, because the amount of data that DataLoader sends between processes grows with the batch.

At the end, the program measures how much memory each way of making a batch of 32 takes from the system in addition to
the batch itself. By arithmetic, Pillow wastes about 20 MB: the extra size of RGB over a photo's own YUV 4:2:0, and a
tensor for each image. The measured waste is more than five times that, since Pillow keeps four bytes per pixel and
copies what it resizes.
"""

from __future__ import annotations

import time
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

import spdl.io
from _program.fresh_memory import measure_fresh_memory
from _program.isolated import measure_in_turns
from _program.options import make_parser, positive
from _program.photos import PhotoDataset, chosen_photos, write_resized
from _program.plots import Line, Panel
from _program.record import Record, finish
from _program.table import print_table
from _program.transforms import Compose, PILToTensor, Resize
from spdl.dataloader import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spdl.io import ImageFrames

__all__ = ["main", "measure_copies", "measure_row", "pillow_pipeline", "spdl_pipeline", "torch_loader"]

SIZE = 224
SOURCE_SIZE = (720, 480)
"""Width and height of the photos for measuring the memory that batches take."""

Photos = list[tuple[str, int]]
Item = tuple[Any, Any]
"""An image or a batch, and its class or classes."""


def make_dataset(photos: Photos, length: int) -> PhotoDataset:
    """Return a dataset in torchvision's style: decoded with Pillow, resized, one tensor (3, 224, 224) per photo."""
    return PhotoDataset(photos, transform=Compose([Resize((SIZE, SIZE)), PILToTensor()]), length=length)


def torch_loader(photos: Photos, *, length: int, batch_size: int | None, num_workers: int) -> Iterator[Item]:
    """Load with PyTorch's DataLoader, the starting point.

    Args:
        photos: Paths and classes.
        length: How many photos to load; they are repeated.
        batch_size: Photos per batch. None yields single images.
        num_workers: How many processes.
    """
    yield from torch.utils.data.DataLoader(
        make_dataset(photos, length), batch_size=batch_size, num_workers=num_workers, multiprocessing_context="fork"
    )


def pillow_pipeline(photos: Photos, *, length: int, batch_size: int | None, num_workers: int) -> Iterator[Item]:
    """Load with a Pipeline over the same dataset: steps 1 and 2.

    Args:
        photos: Paths and classes.
        length: How many photos to load; they are repeated.
        batch_size: Photos per batch. None yields single images.
        num_workers: How many threads.
    """
    dataset = make_dataset(photos, length)
    builder: PipelineBuilder[Any, Any] = (
        PipelineBuilder()
        .add_source(range(len(dataset)))
        .pipe(dataset.__getitem__, concurrency=num_workers, output_order="input")
    )
    if batch_size is not None:
        builder.aggregate(batch_size).pipe(torch.utils.data.default_collate)
    pipeline = builder.add_sink(num_workers).build(num_threads=num_workers)
    with pipeline.auto_stop():
        yield from pipeline


def spdl_pipeline(photos: Photos, *, length: int, batch_size: int, num_workers: int) -> Iterator[Item]:
    """Load with a Pipeline and `spdl.io`: step 3.

    Args:
        photos: Paths and classes.
        length: How many photos to load; they are repeated.
        batch_size: Photos per batch.
        num_workers: How many threads.
    """
    dataset = PhotoDataset(photos, loader=decode_image, length=length)
    pipeline = (
        PipelineBuilder()
        .add_source(range(len(dataset)))
        .pipe(dataset.__getitem__, concurrency=num_workers, output_order="input")
        .aggregate(batch_size)
        .pipe(convert)
        .add_sink(num_workers)
        .build(num_threads=num_workers)
    )
    with pipeline.auto_stop():
        yield from pipeline


def decode_image(path: str) -> ImageFrames:
    """Decode and resize an image, without making a tensor of it yet."""
    filter_desc = spdl.io.get_video_filter_desc(
        scale_width=SIZE, scale_height=SIZE, scale_mode=None, scale_algo="bilinear"
    )
    return spdl.io.decode_packets(spdl.io.demux_image(path), filter_desc=filter_desc)


def convert(items: Sequence[tuple[ImageFrames, int]]) -> tuple[torch.Tensor, Sequence[int]]:
    """Copy the frames into one tensor (N, 3, 224, 224)."""
    frames, classes = zip(*items, strict=True)
    return spdl.io.to_torch(spdl.io.convert_frames(frames)).permute(0, 3, 1, 2), classes


LOADERS: dict[str, Callable[..., Iterator[Item]]] = {
    "PyTorch DataLoader": torch_loader,
    "Pipeline, Pillow": pillow_pipeline,
    "Pipeline, spdl.io": spdl_pipeline,
}


def measure_row(
    *, loader: str, photos: Photos, length: int, batch_size: int | None, num_workers: int
) -> dict[str, float]:
    """Measure how many images a loader yields per second, including its start and end.

    Args:
        loader: One of `LOADERS`.
        photos: Paths and classes.
        length: How many photos to load.
        batch_size: Photos per batch, or None.
        num_workers: How many processes or threads.
    """
    torch.set_num_threads(1)
    images = 0
    start = time.monotonic()
    for data, _ in LOADERS[loader](photos, length=length, batch_size=batch_size, num_workers=num_workers):
        images += 1 if batch_size is None else len(data)
    seconds = time.monotonic() - start
    return {"images": images, "seconds": seconds, "images_per_second": images / seconds}


def batch_of_tensors(paths: Sequence[str]) -> object:
    """Make a batch in PyTorch's way: an image, its resized copy and its tensor, for each photo."""
    dataset = make_dataset([(path, 0) for path in paths], len(paths))
    return torch.utils.data.default_collate([dataset[index] for index in range(len(dataset))])


def batch_of_frames(paths: Sequence[str]) -> object:
    """Make a batch from frames that are decoded one by one."""
    return convert([(decode_image(path), 0) for path in paths])


def batch_in_one_call(paths: Sequence[str]) -> object:
    """Make a batch with one native call."""
    return spdl.io.to_torch(
        spdl.io.load_image_batch(paths, width=SIZE, height=SIZE, mode="stretch", interpolation="bilinear")
    )


BATCHES: dict[str, Callable[[Sequence[str]], object]] = {
    "Pillow, tensors, default_collate": batch_of_tensors,
    "spdl.io, frames, convert_frames": batch_of_frames,
    "spdl.io, load_image_batch": batch_in_one_call,
}


def measure_copies(*, way: str, paths: Sequence[str], batches: int) -> dict[str, float]:
    """Measure the memory that one way of making batches takes from the system.

    Args:
        way: One of `BATCHES`.
        paths: The photos of a batch.
        batches: How many to make; all are kept until the end.

    Returns:
        Megabytes (10^6 bytes) per batch: ``batch_mb`` for the batch itself, ``wasted_mb`` in addition to it.
    """
    batch_mb = len(paths) * SIZE * SIZE * 3 / 1e6
    fresh = measure_fresh_memory(lambda: BATCHES[way](paths), batches)
    return {"batch_mb": batch_mb, "wasted_mb": fresh / 1e6 - batch_mb}


def panels(measured: Record) -> list[Panel]:
    """Return the panels to draw: one for each batch size."""
    rows = measured["rows"]
    found = []
    for batch_size in dict.fromkeys(row["batch_size"] for row in rows):
        lines = {}
        for loader in LOADERS:
            own = [row for row in rows if (row["batch_size"], row["loader"]) == (batch_size, loader)]
            if own:
                x, y = [row["num_workers"] for row in own], [row["images_per_second"] for row in own]
                lines[loader] = Line(x, y, ours=loader != "PyTorch DataLoader")
        title = "single images" if batch_size is None else f"batches of {batch_size}"
        found.append(Panel(title, "workers", "images/s", lines, doubling=True))
    return found


def _copies(photos: Photos, batch_size: int, rounds: int) -> list[dict[str, Any]]:
    with TemporaryDirectory(prefix="spdl-migration-") as folder:
        paths = write_resized([path for path, _ in photos[:batch_size]], folder, SOURCE_SIZE)
        cases = [{"way": way, "paths": paths, "batches": 4} for way in BATCHES]
        figures = measure_in_turns(measure_copies, cases, rounds)
    return [{"way": case["way"], **each} for case, each in zip(cases, figures, strict=True)]


def main() -> None:
    """Measure, print and write the results."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--root-dir", help="a folder of photos, or ImageNet's (default: the demo's photos, fetched from package data)"
    )
    parser.add_argument("--split", default="val", help="which part of ImageNet (default: %(default)s)")
    parser.add_argument(
        "--batch-sizes", type=positive, nargs="+", default=[32, 64, 128, 256], metavar="N", help="batch sizes to try"
    )
    parser.add_argument(
        "--workers", type=positive, nargs="+", default=[1, 2, 4, 8, 16, 32], metavar="N", help="workers to try"
    )
    parser.add_argument(
        "--length", type=positive, default=2560, help="photos that each row loads (default: %(default)s)"
    )
    options = parser.parse_args()
    photos = chosen_photos(parser, options.root_dir, options.split)
    if options.quick:
        options.batch_sizes, options.workers, options.length, options.rounds = [4], [2], 8, 1
    cases = [
        {"loader": loader, "length": options.length, "batch_size": batch_size, "num_workers": number}
        for batch_size in (None, *options.batch_sizes)
        for loader in LOADERS
        for number in options.workers
        if not (batch_size is None and loader == "Pipeline, spdl.io")
    ]
    figures = measure_in_turns(measure_row, [{"photos": photos, **case} for case in cases], options.rounds)
    rows = [{**case, **each} for case, each in zip(cases, figures, strict=True)]
    print_table(
        ("batch", "workers", "images/s", "CPU ms per image", "peak MiB", "loader"),
        (
            (
                row["batch_size"] or "-",
                row["num_workers"],
                f"{row['images_per_second']:.1f}",
                f"{1000 * row['cpu_seconds'] / row['images']:.2f}",
                f"{row.get('peak_mib', float('nan')):.0f}",
                row["loader"],
            )
            for row in rows
        ),
    )
    batch_size = 4 if options.quick else 32
    copies = _copies(photos, batch_size, options.rounds)
    width, height = SOURCE_SIZE
    print(f"memory taken for a batch of {batch_size} photos of {width} x {height} besides the batch itself")
    print_table(
        ("wasted MB", "batch MB", "way"),
        ((f"{row['wasted_mb']:.1f}", f"{row['batch_mb']:.1f}", row["way"]) for row in copies),
    )
    finish(
        options,
        {"rows": rows, "copies": copies, "copies_batch_size": batch_size},
        "From DataLoader to Pipeline",
        panels,
    )


if __name__ == "__main__":
    main()
