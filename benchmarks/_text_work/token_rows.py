"""Reads shuffled rows of a file of tokens, with labels, positions and bounds. Prints the tokens in a second.

Each contender reads whole rows of the documents put one after the other. PyTorch's and Grain's make the arrays with the
same lines, which is what their users write.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH = 1024
BATCH = 8
SECONDS = 3.0


class Rows:
    """The rows by their numbers, as a PyTorch dataset or a source of Grain: what a user writes."""

    def __init__(self, folder: Path) -> None:
        self.tokens = np.memmap(folder / "tokens.ds", np.uint16, "r")
        self.offsets = np.load(folder / "offsets.npy")

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // LENGTH

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.__getitems__([number])

    def __getitems__(self, numbers: list[int]) -> dict[str, Any]:
        begins = np.asarray(numbers) * LENGTH
        tokens = np.stack([self.tokens[begin : begin + LENGTH + 1] for begin in begins]).astype(np.int64)
        positions = np.empty((len(begins), LENGTH), np.int64)
        bounds = []
        for row, begin in enumerate(begins):
            first = np.searchsorted(self.offsets, begin, "right")
            last = np.searchsorted(self.offsets, begin + LENGTH, "left")
            edges = np.concatenate(([begin], self.offsets[first:last], [begin + LENGTH])) - begin
            edges = edges[np.r_[True, edges[1:] != edges[:-1]]]
            positions[row] = np.arange(LENGTH) - np.repeat(edges[:-1], np.diff(edges))
            bounds.append(edges[:-1] + row * LENGTH)
        cumulative = np.append(np.concatenate(bounds), len(begins) * LENGTH).astype(np.int32)
        return {
            "tokens": tokens[:, :-1],
            "labels": tokens[:, 1:],
            "position_ids": positions,
            "cu_seqlens": cumulative,
        }


def by_us(folder: Path, threads: int) -> Iterator[Any]:
    """Yield batches from a pipeline."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from spdl.io import RowWriter  # noqa: PLC0415 - the package is in one environment only.
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415
    from spdl.source import EpochSampler, PackedOrder, TokenFiles  # noqa: PLC0415

    documents = TokenFiles(folder / "tokens.ds")
    order = PackedOrder(documents.lengths, LENGTH, algorithm="concat", seed=0)
    sampler = EpochSampler(order, batch_size=BATCH, drop_last=True, rank=0, world_size=1)
    write = RowWriter(LENGTH)
    builder = PipelineBuilder().add_source(sampler.batch_sampler)
    builder.pipe(lambda numbers: write(order.rows(numbers), documents), concurrency=threads).add_sink(8)
    with builder.build(num_threads=threads).auto_stop() as pipeline:
        yield from pipeline


def by_loader(folder: Path, threads: int) -> Iterator[Any]:
    """Yield batches from our ready-made loader."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from spdl.dataloader import TextLoader  # noqa: PLC0415 - the package is in one environment only.
    from spdl.source import TokenFiles  # noqa: PLC0415

    options: dict[str, Any] = {"shuffle": True, "drop_last": True, "num_threads": threads, "output": "numpy"}
    yield from TextLoader(TokenFiles(folder / "tokens.ds"), BATCH, length=LENGTH, packing="concat", **options)


def by_torch(folder: Path, workers: int) -> Iterator[Any]:
    """Yield batches from PyTorch's loader."""
    import torch  # noqa: PLC0415

    def collate(batch: Any) -> Any:
        return {name: torch.from_numpy(value) for name, value in batch.items()}

    rows = Rows(folder)
    yield from torch.utils.data.DataLoader(
        rows, BATCH, shuffle=True, drop_last=True, num_workers=workers, collate_fn=collate
    )


def by_grain(folder: Path, threads: int) -> Iterator[Any]:
    """Yield batches from Grain, whose threads read several batches at once."""
    import grain  # noqa: PLC0415

    class Batches:
        def __init__(self) -> None:
            self.rows = Rows(folder)
            self.order = np.random.default_rng(0).permutation(len(self.rows))

        def __len__(self) -> int:
            return len(self.rows) // BATCH

        def __getitem__(self, number: int) -> Any:
            return self.rows.__getitems__(self.order[number * BATCH : (number + 1) * BATCH])

    dataset = grain.MapDataset.source(Batches())
    yield from dataset.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=16))


CONTENDERS = {"spdl-turbo": by_us, "TextLoader": by_loader, "torch": by_torch, "grain": by_grain}


def main(contender: str, folder: Path, workers: int) -> dict[str, float]:
    """Read for some seconds, after the first batches."""
    # All of it in memory.
    np.fromfile(folder / "tokens.ds", np.uint8).max()
    begun = time.perf_counter()
    batches = CONTENDERS[contender](folder, workers)
    next(batches)
    first = time.perf_counter() - begun
    for _ in range(50):
        next(batches)
    start = time.perf_counter()
    tokens = 0
    for batch in batches:
        tokens += batch["tokens"].shape[0] * LENGTH
        if time.perf_counter() - start > SECONDS:
            break
    return {"tokens per second": tokens / (time.perf_counter() - start), "first batch, ms": 1000 * first}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(main(given["contender"], Path(given["folder"]), given["workers"])))
