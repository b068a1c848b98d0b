#!/usr/bin/env python3
"""Train a small convolutional network on photos from a DataLoader, and measure waiting for data apart from training.

The photos are your own folder, with a sub-folder for each class, or the demo's small set. They are decoded in
threads, gathered into batches, moved to the device and normalised there. Each epoch prints a row: how long the loop
waited for its batches (data), how long it trained (step), the loss and the accuracy. If loading takes a noticeable
share of the time, `headspace.py` shows how much faster training could get.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

import spdl.io
from _program import progress
from _program.isolated import run_in_process
from _program.options import folder, make_parser, positive
from _program.photos import chosen_photos
from _program.plots import Line, Panel
from _program.record import Record, finish
from _program.table import print_table
from spdl.dataloader import DataLoader
from spdl.source import DistributedRandomSampler, embed_shuffle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spdl.io import CPUBuffer, ImageFrames

__all__ = ["Training", "main", "make_loader", "make_model", "train", "train_epochs"]

Batch = tuple[torch.Tensor, torch.Tensor]

SIZE = 96
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def make_loader(
    photos: Sequence[tuple[str, int]], *, batch_size: int, num_threads: int, device: torch.device
) -> DataLoader[int, Batch]:
    """Return a loader that yields the photos in a different order each epoch.

    Args:
        photos: Paths and classes.
        batch_size: Photos per batch. An incomplete last batch is left out.
        num_threads: How many threads decode photos and gather batches.
        device: The device to deliver batches to.

    Returns:
        A loader of images, float32 (N, 3, 96, 96) and normalised, and their classes, int64 (N,).
    """
    filter_desc = spdl.io.get_video_filter_desc(
        scale_width=SIZE, scale_height=SIZE, scale_mode=None, scale_algo="bilinear"
    )
    mean, std = (torch.tensor(values, device=device).view(3, 1, 1) for values in (MEAN, STD))

    def decode(index: int) -> tuple[ImageFrames, int]:
        path, label = photos[index]
        return spdl.io.decode_packets(spdl.io.demux_image(path), filter_desc=filter_desc), label

    def gather(items: list[tuple[ImageFrames, int]]) -> tuple[CPUBuffer, list[int]]:
        return spdl.io.convert_frames([frames for frames, _ in items]), [label for _, label in items]

    def transfer(batch: tuple[CPUBuffer, list[int]]) -> Batch:
        buffer, labels = batch
        images = spdl.io.to_torch(buffer).to(device).permute(0, 3, 1, 2)
        return (images.float() / 255 - mean) / std, torch.tensor(labels, device=device)

    sampler = DistributedRandomSampler(len(photos), rank=0, world_size=1)
    return DataLoader(
        embed_shuffle(sampler),
        preprocessor=decode,
        batch_size=batch_size,
        drop_last=True,
        aggregator=gather,
        transfer_fn=transfer,
        num_threads=num_threads,
    )


def make_model(num_classes: int) -> nn.Module:
    """Return a convolutional network of four layers for images (N, 3, H, W)."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, num_classes))


@dataclass
class Training:
    """The times and the outcome of one epoch of training.

    Attributes:
        images: How many images were trained on.
        data_seconds: How long the loop waited for each batch.
        step_seconds: How long it trained on each batch.
        losses: The loss of each batch.
        correct: How many images were classified correctly before they were trained on.
    """

    images: int = 0
    data_seconds: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    correct: int = 0

    def figures(self) -> dict[str, float]:
        """Return totals, and means per batch in milliseconds."""
        data, step, batches = sum(self.data_seconds), sum(self.step_seconds), len(self.losses)
        return {
            "images": self.images,
            "images_per_second": self.images / (data + step),
            "data_ms": 1000 * data / batches,
            "step_ms": 1000 * step / batches,
            "data_share": data / (data + step),
            "loss": sum(self.losses) / batches,
            "accuracy": self.correct / self.images,
        }


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable[Batch]) -> Training:
    """Train a model on batches, and time waiting and training separately.

    Args:
        model: Returns a score per class.
        optimizer: The optimizer of the model's parameters.
        batches: Images and classes on the model's device.
    """
    training = Training()
    model.train()
    before = time.perf_counter()
    for images, labels in batches:
        arrived = time.perf_counter()
        optimizer.zero_grad()
        scores = model(images)
        loss = nn.functional.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        # item() waits for the device, so that the step's time includes all of its work.
        training.losses.append(loss.item())
        training.correct += int((scores.argmax(1) == labels).sum())
        training.images += len(labels)
        done = time.perf_counter()
        training.data_seconds.append(arrived - before)
        training.step_seconds.append(done - arrived)
        before = done
    if not training.images:
        raise ValueError("there was nothing to train on: are there fewer photos than a batch holds?")
    return training


def train_epochs(
    *, photos: Sequence[tuple[str, int]], batch_size: int, num_threads: int, epochs: int
) -> list[dict[str, float]]:
    """Train a new model for some epochs.

    Args:
        photos: Paths and classes.
        batch_size: Photos per batch.
        num_threads: How many threads load.
        epochs: How many times all photos are seen.

    Returns:
        The `Training.figures` of each epoch.
    """
    # More threads for the training's operators would leave none for the loader.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model(1 + max(label for _, label in photos)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = make_loader(photos, batch_size=batch_size, num_threads=num_threads, device=device)
    return [train(model, optimizer, loader).figures() for _ in progress.epochs(epochs)]


def panels(measured: Record) -> list[Panel]:
    """Return the panels to draw: times and accuracy against the epochs."""
    rows = measured["rows"]
    epochs = [row["epoch"] for row in rows]

    def line(key: str) -> Line:
        return Line(epochs, [row[key] for row in rows], ours=key == "data_ms")

    return [
        Panel(
            "Time per batch",
            "epoch",
            "ms",
            {"waiting for data": line("data_ms"), "training step": line("step_ms")},
        ),
        Panel("Accuracy while training", "epoch", "share of images", {"accuracy": line("accuracy")}),
    ]


def main() -> None:
    """Train, print and write the results."""
    parser = make_parser(__doc__, rounds=1)
    parser.add_argument("--photos", type=folder, help="a folder with a sub-folder for each class (default: the demo's)")
    parser.add_argument("--batch-size", type=positive, default=32, help="photos per batch (default: %(default)s)")
    parser.add_argument("--num-threads", type=positive, default=4, help="threads that load (default: %(default)s)")
    parser.add_argument("--epochs", type=positive, default=10, help="epochs to train for (default: %(default)s)")
    options = parser.parse_args()
    photos = chosen_photos(parser, options.photos)
    if options.quick:
        photos, options.batch_size, options.epochs = photos[:64], 16, 2
    outcome = run_in_process(
        train_epochs,
        photos=photos,
        batch_size=options.batch_size,
        num_threads=options.num_threads,
        epochs=options.epochs,
    )
    progress.end()
    rows = [{"epoch": epoch, **figures} for epoch, figures in enumerate(outcome.result, start=1)]
    print_table(
        ("epoch", "images/s", "data ms", "step ms", "data share", "loss", "accuracy"),
        (
            (
                row["epoch"],
                f"{row['images_per_second']:.1f}",
                f"{row['data_ms']:.2f}",
                f"{row['step_ms']:.2f}",
                f"{row['data_share']:.1%}",
                f"{row['loss']:.3f}",
                f"{row['accuracy']:.1%}",
            )
            for row in rows
        ),
    )
    measured = {
        "rows": rows,
        "batch_size": options.batch_size,
        "num_threads": options.num_threads,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_mib": outcome.peak_mib,
    }
    finish(options, measured, "Training a small network on photos", panels)


if __name__ == "__main__":
    main()
