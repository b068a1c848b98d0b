"""Reads records of every format and is killed in the middle of an epoch, or goes on where another was killed.

Run it as ``python killed.py FOLDER STEPS``; with 0 steps it goes to the end of the epoch.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from spdl.dataloader import DataLoader
from spdl.source import (
    BlockShuffledOrder,
    EpochSampler,
    Files,
    HuggingFaceDataset,
    JsonLines,
    LitDataShards,
    MappedRecords,
    MDSShards,
    ParquetFiles,
    TarShards,
)


def find_sources(folder: Path) -> dict[str, MappedRecords[int]]:
    """Return a source of numbers for each format that can be read here."""
    found: dict[str, Any] = {
        "tar": MappedRecords(TarShards(folder / "{0..2}.tar"), lambda record: int(bytes(record["txt"]))),
        "files": MappedRecords(Files(folder, extensions=".number"), lambda record: int(bytes(record.data))),
        "json lines": MappedRecords(JsonLines(folder / "{0..2}.jsonl", cache=folder), lambda record: record["n"]),
        "MDS": MappedRecords(MDSShards(folder / "mds"), lambda record: record["n"]),
        "LitData": MappedRecords(LitDataShards(folder / "litdata"), lambda record: record["n"]),
    }
    if (folder / "0.parquet").exists():
        rows = ParquetFiles(folder / "{0..2}.parquet")
        found["Parquet"] = MappedRecords(rows, lambda record: record["n"])
    if "Parquet" in found and importlib.util.find_spec("datasets"):
        import datasets  # noqa: PLC0415 - an optional dependency.

        dataset = datasets.Dataset.from_parquet(str(folder / "0.parquet"), cache_dir=str(folder / "hub"))
        found["Hugging Face"] = MappedRecords(HuggingFaceDataset(dataset), lambda record: record["n"])
    return found


def make_loader(source: MappedRecords[int]) -> DataLoader[int, list[int]]:
    """Return a loader of batches of five in random order."""
    order = BlockShuffledOrder(len(source), block=source.block_sizes, window=2, seed=7)
    sampler = EpochSampler(order, batch_size=5, rank=0, world_size=1, data=source.fingerprint())
    return DataLoader(sampler, batch_size=5, aggregator=source.__getitems__, output_order="input", num_threads=2)


def main(folder: Path, steps: int) -> None:
    """Read so many batches of each format. What was read and the state are written after each batch."""
    loaders = []
    for name, source in find_sources(folder).items():
        log = folder / f"{name}.log"
        loader = make_loader(source)
        before: dict[str, Any] = json.loads(log.read_text()) if log.exists() else {"read": [], "size": len(source)}
        if "state" in before:
            loader.load_state_dict(before["state"])
        batches = iter(loader)
        loaders.append((loader, batches))
        for step, batch in enumerate(batches, 1):
            before["read"] += batch
            before["state"] = loader.state_dict()
            log.write_text(json.dumps(before))
            if step == steps:
                break
    if steps:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
