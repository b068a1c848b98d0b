"""A folder of photos: a dataset that decodes with Pillow, or with spdl.io."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from measure import BATCH, SIZE, cpu_seconds, memory_mib, photos
from PIL import Image

from loaders import Endless, make_loader


class ByPillow:
    """A dataset as users have it: Pillow decodes and resizes, and PyTorch makes a tensor."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        with Image.open(self.paths[index]) as file:
            image = file.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(image)), index % 10


class Flipped(ByPillow):
    """The same, and every other photo is turned over, as PyTorch's generator says: threads draw other numbers."""

    def __getitem__(self, index: int) -> Any:
        pixels, label = super().__getitem__(index)
        return pixels.flip(1) if torch.rand(1) < 0.5 else pixels, label  # noqa: PLR2004 - a half.


class BySpdl(ByPillow):
    """The same with a call of `spdl.io` for each photo."""

    def __getitem__(self, index: int) -> Any:
        import spdl.io  # noqa: PLC0415 - not where the reference is measured.

        buffer = spdl.io.load_image_batch([self.paths[index]], width=SIZE, height=SIZE)
        return spdl.io.to_torch(buffer)[0], index % 10


class BySpdlInBatches(ByPillow):
    """The same with `spdl.io.load_image_batch`: a batch is loaded in one call."""

    def __getitems__(self, indices: list[int]) -> Any:
        import spdl.io  # noqa: PLC0415

        paths = [self.paths[index] for index in indices]
        pixels = spdl.io.to_torch(spdl.io.load_image_batch(paths, width=SIZE, height=SIZE))
        return pixels, torch.tensor([index % 10 for index in indices])


def take_batch(batch: Any) -> Any:
    """Return a batch that is one already."""
    return batch


DATASETS: dict[str, Any] = {
    "pillow": ByPillow,
    "pillow, flipped": Flipped,
    "spdl.io": BySpdl,
    "spdl.io, in batches": BySpdlInBatches,
}


def measure(*, loader: str, workers: int, folder: str, dataset: str, seconds: float) -> dict[str, float]:
    """Take batches for some seconds, once the workers run."""
    # What a loop of one's own has as well: training keeps the cores itself, or leaves them all to the loader.
    torch.set_num_threads(1)
    paths = photos(folder)
    collate = {"collate_fn": take_batch} if dataset == "spdl.io, in batches" else {}
    # The imports that the first use of each loader needs.
    next(iter(make_loader(loader, range(1), 1)))
    begin = time.perf_counter()
    made = make_loader(loader, DATASETS[dataset](paths), workers, batch_sampler=Endless(len(paths), BATCH), **collate)
    batches = iter(made)
    first = next(batches)
    first_seconds = time.perf_counter() - begin
    if tuple(first[0].shape) not in {(BATCH, SIZE, SIZE, 3), (BATCH, 3, SIZE, SIZE)}:
        raise SystemExit(f"a batch has the shape {tuple(first[0].shape)}")
    for _ in range(4 * workers):
        next(batches)
    cpu, begin, taken, memory = cpu_seconds(), time.perf_counter(), 0, 0.0
    while (elapsed := time.perf_counter() - begin) < seconds or taken % workers:
        next(batches)
        taken += 1
    cpu = cpu_seconds() - cpu
    for _ in range(3):
        memory = max(memory, memory_mib())
        next(batches)
    return {
        "images_per_second": taken * BATCH / elapsed,
        "cpu_ms_per_image": 1000 * cpu / (taken * BATCH),
        "memory_mib": memory,
        "first_batch_ms": 1000 * first_seconds,
    }
