#!/usr/bin/env python3
"""Train a small network without labels on two views of each photo, as SimCLR does, and test what it has learnt.

Each epoch loads two views of every photo from one decode: crops, flips, colours, gray and blur, all drawn by the seed,
the epoch and the photo. The loss asks the network to tell which views are of the same photo. After the last epoch, each
photo is classified by the nearest other photo in the network's features, which needs no further training.

The photos are a folder of your own, with a sub-folder for each class, or the demo's small set.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from _program import progress
from _program.isolated import run_in_process
from _program.options import folder, make_parser, positive
from _program.photos import chosen_photos
from _program.plots import Line, Panel
from _program.record import Record, finish
from _program.table import print_table
from image_classification import MEAN, STD
from spdl.dataloader import ImageAugment, ImageLoader
from spdl.source import ImageList

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "make_loader", "make_model", "nearest_accuracy", "similarity_loss", "train_epochs"]

SIZE = 64
FEATURES = 128
VIEWS = ImageAugment(
    scale=(0.2, 1),
    brightness=0.4,
    contrast=0.4,
    saturation=0.4,
    hue=0.1,
    jitter=0.8,
    grayscale=0.2,
    blur=0.5,
)


def make_loader(photos: Sequence[tuple[str, int]], *, train: bool, batch_size: int, **options: Any) -> ImageLoader:
    """Return a loader of photos.

    Args:
        photos: Paths and classes.
        train: Whether to load two varied views of each photo, (2, N, 3, 64, 64), instead of its middle, (N, 3, 64, 64).
        batch_size: Photos per batch.
        **options: Further arguments of `ImageLoader`.
    """
    if train:
        options |= {"augment": VIEWS, "views": 2, "shuffle": True, "drop_last": True}
    return ImageLoader(ImageList(photos), batch_size, size=SIZE, mean=MEAN, std=STD, seed=1, **options)


def make_model() -> nn.Module:
    """Return a convolutional network that makes features (N, 128) of images (N, 3, H, W), and a head on top of it."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, FEATURES)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    head = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(), nn.Linear(FEATURES, 64))
    return nn.Sequential(features, head)


def similarity_loss(first: torch.Tensor, second: torch.Tensor, temperature: float = 0.2) -> torch.Tensor:
    """Return SimCLR's loss: the cross-entropy of each view's likeness to the other view of its photo, among all."""
    rows = functional.normalize(torch.cat([first, second]))
    likeness = rows @ rows.T / temperature
    likeness.fill_diagonal_(-torch.inf)
    count = len(first)
    others = torch.arange(2 * count, device=rows.device).roll(count)
    return functional.cross_entropy(likeness, others)


def nearest_accuracy(model: nn.Module, loader: ImageLoader, device: torch.device) -> float:
    """Return for how many photos the nearest other photo in the model's features is of the same class."""
    model.eval()
    with torch.no_grad():
        found = [(functional.normalize(model(images.to(device))), labels.to(device)) for images, labels in loader]
    rows, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    likeness = rows @ rows.T
    likeness.fill_diagonal_(-torch.inf)
    return float((labels[likeness.argmax(1)] == labels).float().mean())


def train_epochs(
    *, photos: Sequence[tuple[str, int]], batch_size: int, num_threads: int | None, epochs: int
) -> list[dict[str, float]]:
    """Train a new model for some epochs.

    Args:
        photos: Paths and classes. The classes are only tested on.
        batch_size: Photos per batch.
        num_threads: How many threads load.
        epochs: How many times all photos are seen.

    Returns:
        The figures of each epoch: photos per second, the loss, and the accuracy by nearest photos.
    """
    # More threads for the training's operators would leave none for the loader.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = make_loader(photos, train=True, batch_size=batch_size, num_threads=num_threads, device=device)
    testing = make_loader(photos, train=False, batch_size=batch_size, num_threads=num_threads)
    figures = []
    for _ in progress.epochs(epochs):
        model.train()
        begun, losses = time.perf_counter(), []
        for (first, second), _ in loader:
            # One call, so that the statistics of the network's norms are those of all views.
            ones, others = model(torch.cat([first, second])).chunk(2)
            loss = similarity_loss(ones, others)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        rate = len(losses) * batch_size / (time.perf_counter() - begun)
        accuracy = nearest_accuracy(model[0], testing, device)
        figures.append({"images_per_second": rate, "loss": sum(losses) / len(losses), "accuracy": accuracy})
    return figures


def panels(measured: Record) -> list[Panel]:
    """Return the panels to draw: the loss and the accuracy against the epochs."""
    rows = measured["rows"]
    epochs = [row["epoch"] for row in rows]

    def line(key: str) -> Line:
        return Line(epochs, [row[key] for row in rows])

    return [
        Panel("Loss", "epoch", "nats", {"loss": line("loss")}),
        Panel("Nearest photos", "epoch", "share of photos", {"of the same class": line("accuracy")}),
    ]


def main() -> None:
    """Train, print and write the results."""
    parser = make_parser(__doc__, rounds=1)
    parser.add_argument("--photos", type=folder, help="a folder with a sub-folder for each class (default: the demo's)")
    parser.add_argument("--batch-size", type=positive, default=64, help="photos per batch (default: %(default)s)")
    parser.add_argument("--num-threads", type=positive, help="threads that load (default: one for each core)")
    parser.add_argument("--epochs", type=positive, default=8, help="epochs to train for (default: %(default)s)")
    options = parser.parse_args()
    photos = chosen_photos(parser, options.photos)
    if options.quick:
        photos, options.batch_size, options.epochs = photos[:32], 8, 2
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
        ("epoch", "photos/s", "loss", "nearest photo"),
        (
            (row["epoch"], f"{row['images_per_second']:.1f}", f"{row['loss']:.3f}", f"{row['accuracy']:.1%}")
            for row in rows
        ),
    )
    measured = {
        "rows": rows,
        "batch_size": options.batch_size,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_mib": outcome.peak_mib,
    }
    finish(options, measured, "Training a small network without labels", panels)


if __name__ == "__main__":
    main()
