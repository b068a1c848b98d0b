#!/usr/bin/env python3
"""Preprocess photos in a Pipeline's threads and in the processes of PyTorch's DataLoader, and compare the rates.

Each loader reads photos and resizes them to 224 x 224. It then does more, in four steps that are measured in turn:

1. nothing more: it yields single images;
2. it makes batches of them;
3. it converts the batches to float and normalises them;
4. it copies them to the GPU; this step is skipped if there is none.

* ``exp_torch``: PyTorch's DataLoader. Its processes decode and resize with Pillow, collate and normalise. Batches come
  to the main process through shared memory.
* ``exp_spdl``: a Pipeline in this process. Threads decode and resize (`spdl.io.demux_image`, `spdl.io.decode_packets`)
  and one copy makes the batch (`spdl.io.convert_frames`).
* ``exp_spdl_batch``: a Pipeline in which each call makes a whole batch (`spdl.io.load_image_batch`) and normalises it
  while writing it. Batches go to the GPU from reused pinned memory (`spdl.io.cpu_storage`), on separate streams
  (`spdl.io.transfer_buffer`).

All of them stretch the photos with bilinear interpolation. Each row runs in a separate process.

The targets: `benchmarks/preprocessing.py` measures the second step beside spdl 0.8.0, too. On two cores its targets are
met. Image by image, at least 2.5 times the images of spdl 0.8.0 and twice PyTorch's, at 0.37 times the CPU time
or less; in batches, at least 3 times and 2.4 times. The targets for 16 cores and those for the transfer to a GPU are
not measured, as they need such a machine. From the third step on, ``exp_spdl`` is limited by the stage that normalises.
One thread runs it, and needs for a photo most of the time that one thread takes to decode and resize it. The stage thus
becomes the bottleneck as soon as two threads decode. In ``exp_spdl_batch``, normalising adds a twentieth to the time of
a batch.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

import spdl.io
from _program.isolated import measure_in_turns
from _program.options import make_parser, positive
from _program.photos import PhotoDataset, chosen_photos, list_photos
from _program.plots import Line, Panel
from _program.record import Record, finish
from _program.transforms import Compose, Normalize, PILToTensor, Resize
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spdl.io import CPUBuffer, ImageFrames
    from spdl.pipeline import Pipeline

__all__ = ["entrypoint", "exp_spdl", "exp_spdl_batch", "exp_torch", "measure_row", "run_dataloader"]

SIZE = 224
MEAN = [0.485, 0.456, 0.406]
IMAGE_DIMENSIONS = 3
STD = [0.229, 0.224, 0.225]


def run_dataloader(dataloader: Iterable[tuple[Any, Any]], max_items: int) -> tuple[int, float]:
    """Take items from a loader and measure the time.

    Args:
        dataloader: Yields images (C, H, W) or batches (N, C, H, W), each with its classes.
        max_items: The most items to take.

    Returns:
        The number of images, and the seconds.
    """
    num_images = 0
    start = time.monotonic()
    for data, _ in islice(dataloader, max_items):
        num_images += 1 if data.ndim == IMAGE_DIMENSIONS else len(data)
    return num_images, time.monotonic() - start


def exp_torch(
    *,
    root_dir: str | None,
    split: str,
    num_workers: int,
    max_items: int,
    batch_size: int | None = None,
    normalize: bool = False,
    transfer: bool = False,
) -> tuple[int, float]:
    """Load with PyTorch's DataLoader, the baseline of the comparison.

    Args:
        root_dir: The folder with the photos; see `_program.photos.list_photos`.
        split: Which part of ImageNet: ``"train"`` or ``"val"``.
        num_workers: How many processes.
        max_items: How many images, or batches, to load.
        batch_size: Images per batch. None makes no batches.
        normalize: Whether to normalise the batches.
        transfer: Whether to copy them to the GPU.

    Returns:
        The number of images, and the seconds.
    """
    dataset = PhotoDataset(
        list_photos(root_dir, split),
        transform=Compose([Resize((SIZE, SIZE)), PILToTensor()]),
        length=max_items * (batch_size or 1),
    )
    normalize_transform = Normalize(mean=MEAN, std=STD)

    def collate(items: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        batch, classes = torch.utils.data.default_collate(items)
        return (normalize_transform(batch.float() / 255) if normalize else batch), classes

    dataloader: Iterable[tuple[torch.Tensor, Any]] = torch.utils.data.DataLoader(
        dataset,
        batch_size=batch_size,
        num_workers=num_workers,
        collate_fn=None if batch_size is None else collate,
        prefetch_factor=1,
        multiprocessing_context="fork",
    )
    with torch.no_grad():
        return run_dataloader(_transferred(dataloader) if transfer else dataloader, max_items)


def _transferred(dataloader: Iterable[tuple[torch.Tensor, Any]]) -> Iterator[tuple[torch.Tensor, Any]]:
    for tensor, classes in dataloader:
        yield tensor.cuda(), classes


def exp_spdl(
    *,
    root_dir: str | None,
    split: str,
    num_workers: int,
    max_items: int,
    batch_size: int | None = None,
    normalize: bool = False,
    transfer: bool = False,
) -> tuple[int, float]:
    """Load with a Pipeline whose threads decode single images.

    Arguments and return value are as for `exp_torch`. Workers are threads. Without a batch size, it yields batches of
    one image.
    """
    filter_desc = spdl.io.get_video_filter_desc(
        scale_width=SIZE, scale_height=SIZE, scale_mode=None, scale_algo="bilinear"
    )

    def decode_image(path: str) -> ImageFrames:
        packets = spdl.io.demux_image(path)
        return spdl.io.decode_packets(packets, filter_desc=filter_desc)

    dataset = PhotoDataset(list_photos(root_dir, split), loader=decode_image, length=max_items * (batch_size or 1))

    def convert(items: list[tuple[ImageFrames, int]]) -> tuple[torch.Tensor, Sequence[int]]:
        frames, classes = zip(*items, strict=True)
        buffer = spdl.io.convert_frames(frames)
        return spdl.io.to_torch(buffer).permute(0, 3, 1, 2), classes

    builder: PipelineBuilder[Any, Any] = (
        PipelineBuilder()
        .add_source(range(len(dataset)))
        .pipe(dataset.__getitem__, concurrency=num_workers)
        .aggregate(batch_size or 1)
        .pipe(convert)
    )
    if normalize:
        transform = Normalize(mean=MEAN, std=STD)
        builder.pipe(lambda item: (transform(item[0].float() / 255), item[1]))
    if transfer:
        builder.pipe(lambda item: (item[0].cuda(), item[1]))
    return _run(builder, num_workers, max_items)


def exp_spdl_batch(
    *,
    root_dir: str | None,
    split: str,
    num_workers: int,
    max_items: int,
    batch_size: int | None = None,
    normalize: bool = False,
    transfer: bool = False,
) -> tuple[int, float]:
    """Load with a Pipeline whose threads make and normalise whole batches, with one native call each.

    Batches go to the GPU from reused pinned memory, on separate streams. Arguments and return value are as for
    `exp_torch`. Workers are threads; without a batch size it yields batches of one image.
    """
    photos = list_photos(root_dir, split)
    num_photos = max_items * (batch_size or 1)
    form: dict[str, Any] = {"dtype": "float32", "mean": MEAN, "std": STD} if normalize else {}
    if transfer:
        bytes_per_value = 4 if normalize else 1
        form["storage"] = spdl.io.cpu_storage((batch_size or 1) * SIZE * SIZE * len(MEAN) * bytes_per_value)
        stream = torch.cuda.Stream()
        cuda_config = spdl.io.cuda_config(stream.device_index, stream.cuda_stream)

    def load_batch(items: list[tuple[str, int]]) -> tuple[CPUBuffer, Sequence[int]]:
        paths, classes = zip(*items, strict=True)
        buffer = spdl.io.load_image_batch(
            paths, width=SIZE, height=SIZE, mode="stretch", interpolation="bilinear", **form
        )
        return buffer, classes

    def deliver(batch: tuple[CPUBuffer, Sequence[int]]) -> tuple[torch.Tensor, Sequence[int]]:
        buffer, classes = batch
        arrived = spdl.io.transfer_buffer(buffer, cuda_config=cuda_config) if transfer else buffer
        return spdl.io.to_torch(arrived).permute(0, 3, 1, 2), classes

    builder: PipelineBuilder[Any, Any] = (
        PipelineBuilder()
        .add_source(photos[index % len(photos)] for index in range(num_photos))
        .aggregate(batch_size or 1)
        .pipe(load_batch, concurrency=num_workers)
        .pipe(deliver)
    )
    return _run(builder, num_workers, max_items)


def _run(builder: PipelineBuilder[Any, Any], num_workers: int, max_items: int) -> tuple[int, float]:
    pipeline = builder.add_sink(num_workers).build(num_threads=num_workers)
    with torch.no_grad():
        return run_dataloader(_started(pipeline), max_items)


def _started(pipeline: Pipeline[Any]) -> Iterator[Any]:
    # The pipeline is started when its first item is taken, so its start is timed, as that of processes is.
    with pipeline.auto_stop():
        yield from pipeline


EXPERIMENTS = {"exp_torch": exp_torch, "exp_spdl": exp_spdl, "exp_spdl_batch": exp_spdl_batch}
LABELS = {
    "exp_torch": "PyTorch DataLoader, Pillow",
    "exp_spdl": "Pipeline, image by image",
    "exp_spdl_batch": "Pipeline, load_image_batch",
}


def measure_row(*, experiment: str, **arguments: Any) -> dict[str, float]:
    """Measure a row of the table.

    Args:
        experiment: The name of one of the functions above.
        **arguments: Its arguments.

    Returns:
        ``images``, ``seconds`` and ``images_per_second``.
    """
    # torch's operators run on a single thread in all experiments, because only the loaders' workers are compared.
    torch.set_num_threads(1)
    images, seconds = EXPERIMENTS[experiment](**arguments)
    return {"images": images, "seconds": seconds, "images_per_second": images / seconds}


def make_steps(batch_size: int) -> dict[str, dict[str, Any]]:
    """Return the arguments of each step by its name. The last step is included only if there is a GPU."""
    steps: dict[str, dict[str, Any]] = {
        "decode, resize": {"batch_size": None},
        "+ batch": {"batch_size": batch_size},
        "+ normalise": {"batch_size": batch_size, "normalize": True},
        "+ transfer": {"batch_size": batch_size, "normalize": True, "transfer": True},
    }
    if not torch.cuda.is_available():
        print("skipped: the step with the transfer, since torch finds no GPU here")
        del steps["+ transfer"]
    return steps


def entrypoint(
    root_dir: str | None,
    split: str,
    batch_size: int,
    max_items: int,
    *,
    workers: Sequence[int] = (1, 2, 4, 8, 16, 32),
    rounds: int = 1,
) -> Record:
    """Measure all steps and print their tables.

    Args:
        root_dir: The folder with the photos; see `_program.photos.list_photos`.
        split: Which part of ImageNet: ``"train"`` or ``"val"``.
        batch_size: Images per batch.
        max_items: How many batches each row loads; without batches, the number of images in as many batches.
        workers: The numbers of workers to try.
        rounds: How often each row is measured, in turns.

    Returns:
        The results, in a form that JSON can hold.
    """
    rows = []
    for name, step in make_steps(batch_size).items():
        items = max_items if step["batch_size"] else max_items * batch_size
        cases = [
            {"experiment": experiment, "root_dir": root_dir, "split": split, "num_workers": number, "max_items": items}
            for experiment in EXPERIMENTS
            for number in workers
        ]
        measured = measure_in_turns(measure_row, [case | step for case in cases], rounds)
        rows += [
            {"step": name, **{key: case[key] for key in ("experiment", "num_workers")}, **figures}
            for case, figures in zip(cases, measured, strict=True)
        ]
        print(f"{name}: {step}")
        _print([row for row in rows if row["step"] == name])
    return {"rows": rows, "batch_size": batch_size, "max_items": max_items}


def _print(rows: list[dict[str, Any]]) -> None:
    """Print a table for each experiment, and one table with all rates."""
    by_experiment = {name: [row for row in rows if row["experiment"] == name] for name in EXPERIMENTS}
    for experiment, own in by_experiment.items():
        print(experiment)
        print(f"\tnum_workers\t{'FPS':24}\tCPU ms per image\tpeak MiB")
        for row in own:
            speed = f"{row['images_per_second']:8.2f} ({row['images']:.0f} / {row['seconds']:5.2f})"
            cpu, peak = 1000 * row["cpu_seconds"] / row["images"], row.get("peak_mib", float("nan"))
            print(f"\t{row['num_workers']:<11}\t{speed:24}\t{cpu:16.2f}\t{peak:8.0f}")
    print(*(f"{row['num_workers']:8}" for row in next(iter(by_experiment.values()))), sep="\t")
    for experiment, own in by_experiment.items():
        print(*(f"{row['images_per_second']:8.2f}" for row in own), experiment, sep="\t")


def panels(measured: Record) -> list[Panel]:
    """Return the panels to draw: one for each step."""
    rows = measured["rows"]
    return [
        Panel(
            step,
            "workers",
            "images/s",
            {
                LABELS[experiment]: Line(
                    [row["num_workers"] for row in rows if (row["step"], row["experiment"]) == (step, experiment)],
                    [
                        row["images_per_second"]
                        for row in rows
                        if (row["step"], row["experiment"]) == (step, experiment)
                    ],
                    ours=experiment != "exp_torch",
                )
                for experiment in EXPERIMENTS
            },
            doubling=True,
        )
        for step in dict.fromkeys(row["step"] for row in rows)
    ]


def main() -> None:
    """Measure, print and write the results."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--root-dir", help="a folder of photos, or ImageNet's (default: the demo's photos, fetched from package data)"
    )
    parser.add_argument("--split", default="val", help="which part of ImageNet (default: %(default)s)")
    parser.add_argument("--batch-size", default=32, type=positive, help="images per batch (default: %(default)s)")
    parser.add_argument(
        "--max-items", default=100, type=positive, help="how many batches each row loads (default: %(default)s)"
    )
    parser.add_argument(
        "--workers", type=positive, nargs="+", default=[1, 2, 4, 8, 16, 32], help="numbers of workers to try"
    )
    options = parser.parse_args()
    if options.quick:
        options.batch_size, options.max_items, options.workers, options.rounds = 4, 2, [2], 1
    # Mistakes are reported before anything is measured.
    chosen_photos(parser, options.root_dir, options.split)
    measured = entrypoint(
        options.root_dir,
        options.split,
        options.batch_size,
        options.max_items,
        workers=options.workers,
        rounds=options.rounds,
    )
    finish(options, measured, "Photos resized to 224 x 224 per second", panels)


if __name__ == "__main__":
    main()
