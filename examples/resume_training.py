#!/usr/bin/env python3
"""Stop a training run in the middle of its epochs, go on, and compare the losses with those of an undisturbed run.

With ``--checkpoint FILE`` the program trains: it goes on from the file if there is one, and SIGTERM, as schedulers send
it before they take a machine away, makes it write the file and exit. Without it, the program runs itself that way, once
undisturbed and once with a SIGTERM every few steps, and shows both losses of every step. They are the same to the last
bit: the loader delivers exactly the batches that the loop had not received, with the same pixels.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from _program.options import folder, make_parser, positive
from _program.photos import chosen_photos
from _program.plots import Line, Panel
from _program.progress import end, tell
from _program.record import Record, finish
from _program.table import print_table
from spdl.dataloader import ImageLoader
from spdl.source import ImageList

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

__all__ = ["main", "make_loader", "make_model", "run_with_stops", "train"]

SIZE = 48
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLASSES = (1, 5, 9)
"""The demo's photos to train on: those cut from these originals."""


def make_loader(photos: Sequence[tuple[str, int]], *, batch_size: int, num_threads: int | None) -> ImageLoader:
    """Return a loader of augmented photos in another order each epoch.

    Args:
        photos: Paths and classes.
        batch_size: Photos per batch. An incomplete last batch is left out.
        num_threads: How many threads load; None takes one for each core.
    """
    return ImageLoader(
        ImageList(photos),
        batch_size,
        size=SIZE,
        augment="train",
        shuffle=True,
        seed=1,
        drop_last=True,
        mean=MEAN,
        std=STD,
        num_threads=num_threads,
    )


def make_model(num_classes: int) -> nn.Module:
    """Return a small convolutional network for images (N, 3, H, W)."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 8), (8, 16), (16, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, num_classes))


def train(
    photos: Sequence[tuple[str, int]],
    checkpoint: Path,
    *,
    batch_size: int,
    epochs: int,
    num_threads: int | None = None,
    after_step: Callable[[list[float]], bool] = bool,
) -> list[float]:
    """Train a model, or go on with one.

    Args:
        photos: Paths and classes.
        checkpoint: The file to go on from, if it is there, and to write at the end.
        batch_size: Photos per batch.
        epochs: How many epochs the whole run has.
        num_threads: How many threads load.
        after_step: Called with the losses after each step; it returns whether to go on.

    Returns:
        The losses of all steps so far, those before the checkpoint included.
    """
    # One thread, since sums of several come in any order. The others are left to the loader.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = make_model(1 + max(label for _, label in photos))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = make_loader(photos, batch_size=batch_size, num_threads=num_threads)
    losses: list[float] = []
    if checkpoint.exists():
        states = torch.load(checkpoint)
        model.load_state_dict(states["model"])
        optimizer.load_state_dict(states["optimizer"])
        loader.load_state_dict(states["loader"])
        losses = states["losses"]
    going_on = True
    # The loader knows which epoch is next, or how far this one is.
    while going_on and loader.epoch < epochs:
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            going_on = after_step(losses)
            if not going_on:
                break
    states = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loader": loader.state_dict(),
        "losses": losses,
    }
    # Replaced at once: a run that is killed while it writes leaves the checkpoint that was there.
    partial = checkpoint.with_suffix(".partial")
    torch.save(states, partial)
    partial.replace(checkpoint)
    return losses


def train_until_stopped(options: argparse.Namespace, photos: Sequence[tuple[str, int]]) -> None:
    """Train until the end or a SIGTERM, and print the losses."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))

    def after_step(losses: list[float]) -> bool:
        print(f"step {len(losses)}, loss {losses[-1]!r}", flush=True)
        return not stopped

    train(
        photos,
        options.checkpoint,
        batch_size=options.batch_size,
        epochs=options.epochs,
        num_threads=options.num_threads,
        after_step=after_step,
    )
    # The checkpoint is written. An interpreter that ends has no handlers any more, so a late signal would kill it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def run_with_stops(arguments: Sequence[str], checkpoint: Path, every: int | None) -> tuple[list[float], list[int]]:
    """Run this program until its training is complete, and stop it now and then.

    Args:
        arguments: The arguments of the program.
        checkpoint: Its checkpoint.
        every: After how many steps of each run to send SIGTERM; None never does.

    Returns:
        The losses of all steps, and the steps after which it stopped.
    """
    stops: list[int] = []
    while True:
        command = [sys.executable, __file__, *arguments, "--checkpoint", str(checkpoint)]
        steps = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own file.
            for line in process.stdout or ():
                steps += line.startswith("step ")
                tell(f"run {len(stops) + 1}, {line.strip()}")
                if steps == every:
                    process.terminate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        losses: list[float] = torch.load(checkpoint)["losses"]
        if stops and len(losses) == stops[-1]:
            # It had nothing left to do.
            end()
            return losses, stops[:-1]
        stops.append(len(losses))


def panels(measured: Record) -> list[Panel]:
    """Return the panel to draw: the losses of both runs against the steps."""
    steps = [row["step"] for row in measured["rows"]]
    lines = {
        name: Line(steps, [row[key] for row in measured["rows"]], ours=key == "resumed_loss")
        for name, key in (("undisturbed", "loss"), ("stopped and resumed", "resumed_loss"))
    }
    return [Panel("Loss of each step", "step", "loss", lines)]


def main() -> None:
    """Train, or compare two runs, print and write the results."""
    parser = make_parser(__doc__, rounds=1)
    parser.add_argument("--photos", type=folder, help="a folder with a sub-folder for each class (default: the demo's)")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="train, from and to this checkpoint")
    parser.add_argument("--batch-size", type=positive, default=16, help="photos per batch (default: %(default)s)")
    parser.add_argument("--num-threads", type=positive, help="threads that load (default: one for each core)")
    parser.add_argument("--epochs", type=positive, default=5, help="epochs to train for (default: %(default)s)")
    parser.add_argument("--every", type=positive, default=7, help="steps between two stops (default: %(default)s)")
    options = parser.parse_args()
    if options.quick:
        options.batch_size, options.epochs, options.every = 4, 2, 3
    photos = chosen_photos(parser, options.photos)
    if options.photos is None:
        photos = [(path, CLASSES.index(label)) for path, label in photos if label in CLASSES]
    if options.checkpoint:
        train_until_stopped(options, photos)
        return
    arguments = [f"--batch-size={options.batch_size}", f"--epochs={options.epochs}"]
    arguments += [f"--photos={options.photos}"] if options.photos else []
    arguments += [f"--num-threads={options.num_threads}"] if options.num_threads else []
    with TemporaryDirectory() as scratch:
        losses, _ = run_with_stops(arguments, Path(scratch, "undisturbed.pt"), None)
        resumed, stops = run_with_stops(arguments, Path(scratch, "stopped.pt"), options.every)
    rows: list[dict[str, Any]] = [
        {"step": step, "loss": loss, "resumed_loss": other}
        for step, (loss, other) in enumerate(zip(losses, resumed, strict=True), start=1)
    ]
    print_table(
        ("step", "loss", "when resumed"),
        ((row["step"], f"{row['loss']:.6f}", f"{row['resumed_loss']:.6f}") for row in rows),
    )
    print(f"stopped after the steps {', '.join(map(str, stops))}; the same losses: {losses == resumed}")
    measured = {"rows": rows, "stops": stops, "same": losses == resumed, "batch_size": options.batch_size}
    finish(options, measured, "A run that was stopped, and one that was not", panels)


if __name__ == "__main__":
    main()
