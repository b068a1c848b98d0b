#!/usr/bin/env python3
"""Train one model on arrays from NPZ or NPY files, loaded in four ways, and watch how the rate develops.

The dataset consists of images and their segmentation labels. The training loop is the same for all ways:

* ``NPZ, processes``: the baseline, torchdata's StatefulDataLoader (PyTorch's DataLoader where torchdata is not
  installed), whose processes call `numpy.load`;
* ``NPZ, threads``: a DataLoader of this package whose threads call `numpy.load`, which holds the GIL much of the time;
* ``NPY, threads``: the same, with the data converted to NPY and loaded by `spdl.io.load_npy`, which copies nothing;
* ``upper bound``: the same under `CacheDataLoader`, so that loading takes no time.
"""

from __future__ import annotations

import io
import time
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

import spdl.io
from _program.isolated import run_in_process
from _program.options import make_parser, positive
from _program.plots import Line, Panel
from _program.progress import end, tell
from _program.record import Record, finish
from _program.table import print_table
from spdl.dataloader import CacheDataLoader, DataLoader

try:
    from torchdata.stateful_dataloader import StatefulDataLoader
except ImportError:
    ProcessLoader: Any = torch.utils.data.DataLoader
else:
    ProcessLoader = StatefulDataLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = [
    "NpzDataset",
    "load_npy_files",
    "load_npz_file",
    "load_npz_in_processes",
    "load_npz_in_threads",
    "main",
    "make_model",
    "measure_training",
    "train",
    "write_samples",
]

CLASSES = 8
WARM_UP = 5
"""Batches that are trained on before the timing starts."""
POINTS = 20
"""How many points of the curve are drawn."""

Arrays = tuple["NDArray[np.uint8]", "NDArray[np.uint8]"]
Batch = tuple[torch.Tensor, torch.Tensor]


def write_samples(folder: str, *, number: int, side: int) -> None:
    """Write a dataset as NPZ and as NPY: images (3, side, side) of noise around a shape, and its labels (side, side).

    Args:
        folder: The folder to write to.
        number: How many samples.
        side: Width and height in pixels.
    """
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side]
    for index in range(number):
        centre_y, centre_x, radius = rng.uniform(0.2, 0.8) * side, rng.uniform(0.2, 0.8) * side, side / 6
        inside = (y - centre_y) ** 2 + (x - centre_x) ** 2 < radius**2
        label = np.where(inside, 1 + index % (CLASSES - 1), 0).astype(np.uint8)
        image = rng.integers(96, size=(3, side, side), dtype=np.uint8) + label * np.uint8(16)
        np.savez(Path(folder, f"{index:05d}.npz"), img=image, lbl=label)
        np.save(Path(folder, f"{index:05d}.img.npy"), image)
        np.save(Path(folder, f"{index:05d}.lbl.npy"), label)


def load_npz_file(path: str) -> Arrays:
    """Load a sample with `numpy.load` from bytes in memory, as for data from remote storage."""
    with np.load(io.BytesIO(Path(path).read_bytes())) as data:
        return data["img"], data["lbl"]


def load_npy_files(path: str) -> Arrays:
    """Return a sample's arrays as views of the bytes of its two files, with `spdl.io.load_npy`."""
    stem = path.removesuffix(".npz")
    image, label = (spdl.io.load_npy(Path(f"{stem}.{part}.npy").read_bytes()) for part in ("img", "lbl"))
    return image, label


def collate(samples: Sequence[Arrays]) -> Batch:
    """Copy samples into a batch: uint8, (N, 3, H, W) and (N, H, W)."""
    images, labels = zip(*samples, strict=True)
    return torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(labels))


class NpzDataset:
    """The map-style dataset of the baseline."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Arrays:
        return load_npz_file(self.paths[index])


def load_npz_in_processes(paths: Sequence[str], *, batch_size: int, num_workers: int) -> Iterable[Batch]:
    """Load NPZ with `numpy.load` in processes."""
    loader: Iterable[Batch] = ProcessLoader(
        NpzDataset(paths),
        batch_size=batch_size,
        num_workers=num_workers,
        collate_fn=collate,
        multiprocessing_context="fork",
    )
    return loader


def load_in_threads(
    load: Callable[[str], Arrays], paths: Sequence[str], *, batch_size: int, num_workers: int
) -> DataLoader[str, Batch]:
    """Load samples in threads with a given function."""
    return DataLoader(paths, preprocessor=load, batch_size=batch_size, aggregator=collate, num_threads=num_workers)


def load_npz_in_threads(paths: Sequence[str], *, batch_size: int, num_workers: int) -> Iterable[Batch]:
    """Load NPZ with `numpy.load` in threads."""
    return load_in_threads(load_npz_file, paths, batch_size=batch_size, num_workers=num_workers)


def load_npy_in_threads(paths: Sequence[str], *, batch_size: int, num_workers: int) -> Iterable[Batch]:
    """Load NPY with `spdl.io.load_npy` in threads."""
    return load_in_threads(load_npy_files, paths, batch_size=batch_size, num_workers=num_workers)


def repeat_first_batches(paths: Sequence[str], *, batch_size: int, num_workers: int) -> Iterable[Batch]:
    """Load the first batches from NPY in threads, then repeat them."""
    loader = load_npy_in_threads(paths, batch_size=batch_size, num_workers=num_workers)
    return CacheDataLoader(loader, num_caches=2, return_caches_after=2)


WAYS: dict[str, Callable[..., Iterable[Batch]]] = {
    "NPZ, processes": load_npz_in_processes,
    "NPZ, threads": load_npz_in_threads,
    "NPY, threads": load_npy_in_threads,
    "upper bound": repeat_first_batches,
}


def make_model() -> nn.Module:
    """Return a network that scores the classes of every eighth pixel of (N, 3, H, W): (N, 8, H/8, W/8)."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=4, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, CLASSES, 1),
    )


def train(batches: Iterable[Batch]) -> Iterator[float]:
    """Train a new model on batches, and yield the loss after each."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for images, labels in batches:
        optimizer.zero_grad()
        scores = model(images.to(device).float() / 255)
        loss = nn.functional.cross_entropy(scores, labels.to(device)[:, ::8, ::8].long())
        loss.backward()
        optimizer.step()
        yield loss.item()


def measure_training(
    *, way: str, paths: Sequence[str], batch_size: int, num_workers: int, batches: int
) -> dict[str, Any]:
    """Train on a number of batches, epoch after epoch.

    Args:
        way: One of `WAYS`.
        paths: The NPZ files; the NPY files lie beside them.
        batch_size: Samples per batch, at most as many as there are samples.
        num_workers: How many processes or threads load.
        batches: How many batches are timed.

    Returns:
        ``seconds`` from the first timed batch to the end of each one, ``batches_per_second`` and the last ``loss``.
    """
    torch.set_num_threads(1)
    loader = WAYS[way](paths, batch_size=batch_size, num_workers=num_workers)
    seconds: list[float] = []
    start = last_loss = 0.0
    steps = train(batch for _ in iter(int, 1) for batch in loader)
    for step, loss in enumerate(islice(steps, WARM_UP + batches), start=1):
        if step == WARM_UP:
            start = time.perf_counter()
        elif step > WARM_UP:
            seconds.append(time.perf_counter() - start)
            last_loss = loss
    return {"seconds": seconds, "batches_per_second": batches / seconds[-1], "loss": last_loss}


def curve(seconds: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return points of batches per second against time, each over an equal share of the batches."""
    share = max(1, len(seconds) // POINTS)
    ends = [0.0, *seconds[share - 1 :: share]]
    pairs = list(pairwise(ends))
    return [(a + b) / 2 for a, b in pairs], [share / (b - a) for a, b in pairs]


def panels(measured: Record) -> list[Panel]:
    """Return the panels to draw: the rate over time."""
    lines = {row["way"]: Line(*curve(row["seconds"]), ours=row["way"] == "NPY, threads") for row in measured["rows"]}
    return [Panel("Training over time", "seconds", "batches/s", lines)]


def main() -> None:
    """Measure, print and write the results."""
    parser = make_parser(__doc__)
    parser.add_argument("--samples", type=positive, default=256, help="size of the dataset (default: %(default)s)")
    parser.add_argument("--side", type=positive, default=512, help="width and height in pixels (default: %(default)s)")
    parser.add_argument("--batch-size", type=positive, default=16, help="samples per batch (default: %(default)s)")
    parser.add_argument("--num-workers", type=positive, default=4, help="processes or threads (default: %(default)s)")
    parser.add_argument("--batches", type=positive, default=200, help="batches that are timed (default: %(default)s)")
    options = parser.parse_args()
    if options.quick:
        options.samples, options.side, options.batch_size, options.batches, options.rounds = 8, 64, 4, 6, 1
    if options.samples < options.batch_size:
        parser.error(f"--samples must be at least --batch-size ({options.batch_size}), got {options.samples}")
    baseline = f"{ProcessLoader.__module__.partition('.')[0]}'s {ProcessLoader.__name__}"
    print(f"processes: {baseline}")
    turns: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    with TemporaryDirectory(prefix="spdl-npz-training-") as directory:
        write_samples(directory, number=options.samples, side=options.side)
        paths = sorted(map(str, Path(directory).glob("*.npz")))
        for index in range(options.rounds):
            for way, found in turns.items():
                tell(f"round {index + 1} of {options.rounds}: {way}")
                outcome = run_in_process(
                    measure_training,
                    way=way,
                    paths=paths,
                    batch_size=options.batch_size,
                    num_workers=options.num_workers,
                    batches=options.batches,
                )
                costs = {"cpu_seconds": outcome.cpu_seconds, "peak_mib": outcome.peak_mib}
                found.append({"way": way, **outcome.result, **costs})
    end()
    # Curves have no median, so the curve of the round with the median rate is used.
    rows = [sorted(found, key=lambda it: it["batches_per_second"])[len(found) // 2] for found in turns.values()]
    print_table(
        ("way", "batches/s", "CPU ms per batch", "peak MiB", "loss"),
        (
            (
                row["way"],
                f"{row['batches_per_second']:.2f}",
                f"{1000 * row['cpu_seconds'] / options.batches:.1f}",
                f"{row['peak_mib'] or float('nan'):.0f}",
                f"{row['loss']:.3f}",
            )
            for row in rows
        ),
    )
    finish(options, {"rows": rows, "baseline": baseline}, "Training from NPZ and NPY files", panels)


if __name__ == "__main__":
    main()
