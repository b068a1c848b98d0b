#!/usr/bin/env python3
"""Find out how much faster training could get if loading took no time.

The training is the one in `image_classification.py`. It runs once with its DataLoader, and once with the same loader
wrapped in `CacheDataLoader`, which soon repeats its first batches and stops loading. The ratio of the two rates is the
headspace: the most that a better loader, more threads or more cores for loading can gain. At 1.0 x, look elsewhere.
"""

from __future__ import annotations

from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

import torch

from _program.isolated import measure_in_turns
from _program.options import folder, make_parser, positive
from _program.photos import chosen_photos
from _program.plots import Line, Panel
from _program.record import Record, finish
from _program.table import print_table
from image_classification import make_loader, make_model, train
from spdl.dataloader import CacheDataLoader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["main", "measure_training"]

WARM_UP = 8
"""Batches trained on before the timing starts, while buffers fill and the first batches are cached."""


def measure_training(
    *, photos: Sequence[tuple[str, int]], batch_size: int, num_threads: int, batches: int, cached: bool
) -> dict[str, float]:
    """Train on a number of batches.

    Args:
        photos: Paths and classes, at least as many as a batch holds.
        batch_size: Photos per batch.
        num_threads: How many threads load.
        batches: How many batches are timed.
        cached: Whether to repeat the first batches instead of loading more.

    Returns:
        ``images_per_second``, ``data_ms`` and ``step_ms`` per batch.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model(1 + max(label for _, label in photos)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader: Iterable[Any] = make_loader(photos, batch_size=batch_size, num_threads=num_threads, device=device)
    if cached:
        loader = CacheDataLoader(loader, num_caches=4, return_caches_after=4)
    # Repeat the epochs. The cached loader never ends.
    endless = chain.from_iterable(repeat(loader))
    train(model, optimizer, islice(endless, WARM_UP))
    training = train(model, optimizer, islice(endless, batches)).figures()
    return {key: training[key] for key in ("images_per_second", "data_ms", "step_ms")}


def panels(measured: Record) -> list[Panel]:
    """Return the panels to draw against the loading threads: both rates, the headspace, and the time of a batch."""
    rows = measured["rows"]
    threads = [row["num_threads"] for row in rows]
    lines = {
        "DataLoader": Line(threads, [row["images_per_second"] for row in rows], ours=True),
        "CacheDataLoader, the upper bound": Line(threads, [row["cached_images_per_second"] for row in rows]),
    }
    headspace = {"headspace": Line(threads, [row["headspace"] for row in rows], ours=True)}
    parts = {
        "DataLoader, waiting": Line(threads, [row["data_ms"] for row in rows], ours=True),
        "DataLoader, training": Line(threads, [row["step_ms"] for row in rows], ours=True),
        "CacheDataLoader, training": Line(threads, [row["cached_step_ms"] for row in rows]),
    }
    return [
        Panel("Training", "threads that load", "images/s", lines, doubling=True),
        Panel("How much faster it could get", "threads that load", "times", headspace, doubling=True),
        Panel("What a batch takes", "threads that load", "milliseconds", parts, doubling=True),
    ]


def main() -> None:
    """Measure, print and write the results."""
    parser = make_parser(__doc__)
    parser.add_argument("--photos", type=folder, help="a folder with a sub-folder for each class (default: the demo's)")
    parser.add_argument("--batch-size", type=positive, default=32, help="photos per batch (default: %(default)s)")
    parser.add_argument("--batches", type=positive, default=100, help="batches that are timed (default: %(default)s)")
    parser.add_argument(
        "--workers", type=positive, nargs="+", default=[1, 2, 4, 8], metavar="N", help="numbers of threads to try"
    )
    options = parser.parse_args()
    photos = chosen_photos(parser, options.photos)
    if options.quick:
        photos, options.batch_size, options.batches, options.workers, options.rounds = photos[:64], 8, 8, [2], 1
    if len(photos) < options.batch_size:
        parser.error(f"there are only {len(photos)} photos: choose a smaller --batch-size than {options.batch_size}")
    common = {"photos": photos, "batch_size": options.batch_size, "batches": options.batches}
    cases = [
        {**common, "num_threads": number, "cached": cached} for number in options.workers for cached in (False, True)
    ]
    figures = measure_in_turns(measure_training, cases, options.rounds)
    rows = [
        {
            "num_threads": number,
            **loading,
            **{f"cached_{key}": value for key, value in cached.items()},
            "headspace": cached["images_per_second"] / loading["images_per_second"],
        }
        for number, loading, cached in zip(options.workers, figures[::2], figures[1::2], strict=True)
    ]
    print_table(
        ("threads", "images/s", "data ms", "step ms", "cached images/s", "headspace"),
        (
            (
                row["num_threads"],
                f"{row['images_per_second']:.1f}",
                f"{row['data_ms']:.2f}",
                f"{row['step_ms']:.2f}",
                f"{row['cached_images_per_second']:.1f}",
                f"{row['headspace']:.2f} x",
            )
            for row in rows
        ),
    )
    finish(options, {"rows": rows, "batch_size": options.batch_size}, "Headspace of training on photos", panels)


if __name__ == "__main__":
    main()
