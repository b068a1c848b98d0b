#!/usr/bin/env python3
"""Train a small network on clips of videos, and measure waiting for data apart from training.

The videos are your own folder, with a sub-folder for each class, or made ones, in which a square moves to one of
four sides: a single picture does not tell which, so the model has to look at several. Each epoch takes another part of
every video; the held-out videos are tested on the part in their middle.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from _program import progress
from _program.isolated import run_in_process
from _program.made_media import make_videos
from _program.options import folder, make_parser, positive
from _program.plots import Line, Panel
from _program.record import Record, finish
from _program.table import print_table
from image_classification import train
from spdl.dataloader import ClipLoader
from spdl.source import VideoFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spdl.dataloader import ClipBatch

__all__ = ["channels_first", "main", "make_loader", "make_model", "test", "train_epochs"]

Batch = tuple[torch.Tensor, torch.Tensor]

SIZE, NUM_FRAMES, FPS = 32, 8, 12.5


def make_loader(videos: Sequence[Any], *, train: bool, batch_size: int, **options: Any) -> ClipLoader:
    """Return a loader of clips of eight pictures, 12.5 a second.

    Args:
        videos: The samples of a `VideoFolder`.
        train: Whether to shuffle the videos and to take another part of each in every epoch.
        batch_size: Clips per batch.
        **options: Further arguments of `ClipLoader`.
    """
    return ClipLoader(
        videos,
        min(batch_size, len(videos)),
        num_frames=NUM_FRAMES,
        fps=FPS,
        size=SIZE,
        sampling="random" if train else "center",
        shuffle=train,
        drop_last=train,
        seed=1,
        mean=(0.3, 0.3, 0.3),
        std=(0.25, 0.25, 0.25),
        batch_transform=channels_first,
        **options,
    )


def channels_first(batch: ClipBatch) -> Batch:
    """Return the clips of a batch as three-dimensional convolutions want them, (N, C, T, H, W), and the labels."""
    return batch.clip.transpose(1, 2), batch.label


def make_model(num_classes: int) -> nn.Module:
    """Return a convolutional network over time and space for clips (N, C, T, H, W)."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv3d(inputs, outputs, 3, stride=(1, 2, 2), padding=1), nn.BatchNorm3d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(64, num_classes))


def train_epochs(*, root: Path, batch_size: int, num_threads: int | None, epochs: int) -> list[dict[str, float]]:
    """Train a new model for some epochs, and test it on videos that it has not seen after each.

    Args:
        root: A folder with a sub-folder for each class. Every fifth file is held out.
        batch_size: clips per batch.
        num_threads: How many threads load.
        epochs: How many times all other videos are seen.

    Returns:
        The figures of each epoch: the shares of time, the loss, and the accuracy on both parts.
    """
    # More threads for the training's operators would leave none for the loader.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    source = VideoFolder(root)
    kept, held_out = ([it for it in source if (it.index % 5 == 0) is held] for held in (False, True))
    model = make_model(len(source.classes)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    options = {"batch_size": batch_size, "num_threads": num_threads, "device": device}
    training, testing = make_loader(kept, train=True, **options), make_loader(held_out, train=False, **options)
    figures = []
    for _ in progress.epochs(epochs):
        one = train(model, optimizer, training).figures()
        one["clips_per_second"] = one.pop("images_per_second")
        figures.append({**one, "held_out": test(model, testing)})
    return figures


def test(model: nn.Module, batches: Iterable[Batch]) -> float:
    """Return the share of clips that a model classifies correctly."""
    model.eval()
    correct = count = 0
    with torch.no_grad():
        for data, labels in batches:
            correct += int((model(data).argmax(1) == labels).sum())
            count += len(labels)
    return correct / count


def panels(measured: Record) -> list[Panel]:
    """Return the panels to draw: times and accuracy against the epochs."""
    rows = measured["rows"]
    epochs = [row["epoch"] for row in rows]

    def line(key: str) -> Line:
        return Line(epochs, [row[key] for row in rows], ours=key == "data_ms")

    times = {"waiting for data": line("data_ms"), "training step": line("step_ms")}
    return [
        Panel("Time per batch", "epoch", "ms", times),
        Panel("Accuracy", "epoch", "share of clips", {"training": line("accuracy"), "held out": line("held_out")}),
    ]


def main() -> None:
    """Train, print and write the results."""
    parser = make_parser(__doc__, rounds=1)
    parser.add_argument("--videos", type=folder, help="a folder with a sub-folder for each class (default: made ones)")
    parser.add_argument("--batch-size", type=positive, default=16, help="clips per batch (default: %(default)s)")
    parser.add_argument("--num-threads", type=positive, help="threads that load (default: one for each core)")
    parser.add_argument("--epochs", type=positive, default=12, help="epochs to train for (default: %(default)s)")
    options = parser.parse_args()
    if options.quick:
        options.batch_size, options.epochs = 4, 2
    with TemporaryDirectory() as scratch:
        root = options.videos
        if root is None:
            root = Path(scratch, "videos")
            make_videos(root, 4 if options.quick else 60)
        outcome = run_in_process(
            train_epochs,
            root=root,
            batch_size=options.batch_size,
            num_threads=options.num_threads,
            epochs=options.epochs,
        )
    progress.end()
    rows = [{"epoch": epoch, **figures} for epoch, figures in enumerate(outcome.result, start=1)]
    print_table(
        ("epoch", "clips/s", "data ms", "step ms", "data share", "loss", "accuracy", "held out"),
        (
            (
                row["epoch"],
                f"{row['clips_per_second']:.1f}",
                f"{row['data_ms']:.2f}",
                f"{row['step_ms']:.2f}",
                f"{row['data_share']:.1%}",
                f"{row['loss']:.3f}",
                f"{row['accuracy']:.1%}",
                f"{row['held_out']:.1%}",
            )
            for row in rows
        ),
    )
    measured = {
        "rows": rows,
        "batch_size": options.batch_size,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_mib": outcome.peak_mib,
    }
    finish(options, measured, "Training a small network on clips", panels)


if __name__ == "__main__":
    main()
