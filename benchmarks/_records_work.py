"""One contender reads records, and prints its figures as JSON. `benchmarks/records.py` runs it."""

from __future__ import annotations

import io
import json
import random
import resource
import struct
import sys
import tarfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from tests.source.counting_store import CountingStore  # noqa: E402 - needs the path above.

SHARDS = 8
WORKERS = 2
BATCH = 64
SIZE = 224
GROUPS = 10_000
ROWS = 100
PREFETCH = 1 << 26


def main(row: str, folder: Path, contender: str, count: int) -> dict[str, float]:
    """Prepare what a row needs, or do the work of a contender."""
    if contender == "prepare":
        PREPARE[row](folder, count)
        return {}
    return WORK[row][contender](folder, count)


def timed(read: Callable[[], Iterator[int]], expected: int, *, warm: bool = True) -> dict[str, float]:
    """Return how fast records come. If it is warm the first do not count, which wait for processes and imports."""
    start = time.perf_counter()
    records = read()
    first = done = next(records)
    if warm:
        start = time.perf_counter()
    for each in records:
        done += each
    elapsed = time.perf_counter() - start
    assert done == expected, (done, expected)
    return {"per second": (done - first * warm) / elapsed}


# Tar archives.


def write_shards(folder: Path, count: int) -> None:
    """Write archives of photos of 500x375 with a class and a caption."""
    from tests.io.images import make_jpeg  # noqa: PLC0415

    photos = [make_jpeg(500, 375, seed=seed) for seed in range(32)]
    for shard in range(SHARDS):
        with tarfile.open(folder / f"train-{shard}.tar", "w", format=tarfile.GNU_FORMAT) as archive:
            for number in range(shard, count, SHARDS):
                parts = {"jpg": photos[number % 32], "cls": b"%d" % (number % 1000), "txt": b"a caption " * 5}
                for part, content in parts.items():
                    member = tarfile.TarInfo(f"{number:08}.{part}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))


def open_shards(folder: Path) -> Any:
    """Return our source of the archives."""
    from spdl.source import TarShards  # noqa: PLC0415

    return TarShards(folder / f"train-{{0..{SHARDS - 1}}}.tar")


def read_by_us(folder: Path, count: int) -> dict[str, float]:
    """Read batches of bytes and labels in random order, with two threads."""
    from spdl.dataloader import DataLoader  # noqa: PLC0415
    from spdl.source import BlockShuffledOrder, EpochSampler  # noqa: PLC0415

    samples = open_shards(folder)

    def load(positions: list[int]) -> list[tuple[bytes, int]]:
        # Copies, as what is only mapped has not been read.
        return [(bytes(each["jpg"]), int(bytes(each["cls"]))) for each in samples.__getitems__(positions)]

    order = BlockShuffledOrder(len(samples), block=samples.block_sizes, window=2)
    sampler = EpochSampler(order, batch_size=BATCH, rank=0, world_size=1)
    loader = DataLoader(sampler, batch_size=BATCH, aggregator=load, num_threads=WORKERS)
    return timed(lambda: map(len, loader), count)


def read_by_webdataset(folder: Path, count: int) -> dict[str, float]:
    """Read batches of bytes and labels by WebDataset in PyTorch's loader, with two processes."""
    import webdataset  # noqa: PLC0415
    from torch.utils.data import DataLoader  # noqa: PLC0415

    pattern = str(folder / f"train-{{0..{SHARDS - 1}}}.tar")
    dataset = webdataset.WebDataset(pattern, shardshuffle=SHARDS).shuffle(1000).to_tuple("jpg", "cls")
    dataset = dataset.map_tuple(lambda photo: photo, int).batched(BATCH, collation_fn=list)
    return timed(lambda: map(len, DataLoader(dataset, batch_size=None, num_workers=WORKERS)), count)


def decode_by_us(folder: Path, count: int) -> dict[str, float]:
    """Read batches of decoded and resized photos, with two threads."""
    from spdl.dataloader import ImageLoader  # noqa: PLC0415
    from spdl.source import BlockShuffledOrder, MappedRecords  # noqa: PLC0415

    samples = open_shards(folder)
    pairs = MappedRecords(samples, lambda each: {"image": each["jpg"], "label": int(bytes(each["cls"]))})
    order = BlockShuffledOrder(len(samples), block=samples.block_sizes, window=2)
    loader = ImageLoader(pairs, BATCH, size=SIZE, order=order, num_threads=WORKERS, rank=0, world_size=1)
    return timed(lambda: (len(batch.image) for batch in loader), count)


def decode_by_webdataset(folder: Path, count: int) -> dict[str, float]:
    """Read batches of photos that Pillow decodes and resizes, with two processes."""
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415
    import webdataset  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    def load(photo: bytes) -> torch.Tensor:
        image = Image.open(io.BytesIO(photo))
        image.draft("RGB", (SIZE, SIZE))
        return torch.from_numpy(np.array(image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)))

    pattern = str(folder / f"train-{{0..{SHARDS - 1}}}.tar")
    dataset = webdataset.WebDataset(pattern, shardshuffle=SHARDS).shuffle(1000).to_tuple("jpg", "cls")
    dataset = dataset.map_tuple(load, int).batched(BATCH)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=WORKERS)
    return timed(lambda: (len(images) for images, _ in loader), count)


# Parquet files.


def write_parquet(folder: Path, _: int) -> None:
    """Write a file of many small row groups."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    rng = random.Random(0)  # noqa: S311
    columns = {
        "number": list(range(ROWS)),
        "text": [f"a caption of some words, {rng.randrange(10**9)}" for _ in range(ROWS)],
        "vector": [[rng.random() for _ in range(32)] for _ in range(ROWS)],
        "data": [rng.randbytes(1000) for _ in range(ROWS)],
    }
    table = pa.table(columns)
    with pq.ParquetWriter(folder / "rows.parquet", table.schema) as writer:
        for _ in range(GROUPS):
            writer.write_table(table)


def peak(figures: dict[str, float]) -> dict[str, float]:
    """Add how much memory Arrow and the process have held at most."""
    import pyarrow as pa  # noqa: PLC0415

    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**figures, "Arrow MB": pa.default_memory_pool().max_memory() / 1e6, "process MB": held}


def scan_by_us(folder: Path, _: int, *, stored: bool) -> dict[str, float]:
    """Read the file as tables."""
    from spdl.source import ParquetFiles  # noqa: PLC0415
    from spdl.store import LocalStore  # noqa: PLC0415

    options: dict[str, Any] = {"store": LocalStore(folder)} if stored else {}
    rows = ParquetFiles("rows.parquet" if stored else folder / "rows.parquet", prefetch_bytes=PREFETCH, **options)
    # Some scan far ahead before they yield anything, so all the time counts but that to read the footer.
    figures = timed(lambda: map(len, rows.tables_from(0)), GROUPS * ROWS, warm=False)
    shard = rows._shards[0]  # noqa: SLF001
    group = shard._read_group(0)[1]  # noqa: SLF001
    return {**peak(figures), "limit MB": (3 * group + PREFETCH) / 1e6}


def scan_by_pyarrow(folder: Path, _: int, *, by_dataset: bool) -> dict[str, float]:
    """Read the file as record batches."""
    import pyarrow.dataset as ds  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    path = folder / "rows.parquet"
    file: Any = ds.dataset(path) if by_dataset else pq.ParquetFile(path)
    read = file.to_batches if by_dataset else file.iter_batches
    return peak(timed(lambda: map(len, read()), GROUPS * ROWS, warm=False))


# What it costs to begin.


def write_archive(folder: Path, _: int) -> None:
    """Write the headers of an archive of 10 GB, and small files of each format."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    for size in (100_000, 1 << 20):
        length = 512 + -(-size // 512) * 512
        count = (10 << 30) // length
        with (folder / f"{size}.tar").open("wb") as file:
            for number in range(count):
                header = tarfile.TarInfo(f"{number:08}.jpg")
                header.size = size
                file.seek(number * length)
                file.write(header.tobuf(tarfile.GNU_FORMAT))
            file.truncate(count * length + 1024)
    write_shards(folder, 64 * SHARDS)
    index = [f"jpg {position} {size} {name}" for name, position, size in members(folder / "train-0.tar")]
    (folder / "train-0.idx").write_text("\n".join([f"v1.2 {len(index)}", *index]) + "\n")
    (folder / "a.jsonl").write_text("".join(json.dumps({"n": number}) + "\n" for number in range(1000)))
    pq.write_table(pa.table({"n": list(range(1000))}), folder / "a.parquet", row_group_size=100)
    places = [4 * 66 + number * 8 for number in range(65)]
    table = struct.pack("<66I", 64, *places)
    shard = {"format": "mds", "version": 2, "samples": 64, "compression": None, "column_names": ["n"]}
    shard |= {"column_encodings": ["int"], "column_sizes": [8], "raw_data": {"basename": "a.mds"}, "zip_data": None}
    (folder / "index.json").write_text(json.dumps({"shards": [shard]}))
    (folder / "a.mds").write_bytes(table + bytes(8 * 64))


def members(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the names, positions and sizes of the photos in an archive."""
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name.endswith(".jpg"):
                yield member.name, member.offset_data, member.size


def measure_opening(folder: Path, _: int) -> dict[str, float]:
    """Count the bytes and requests until the first batch is here."""
    from spdl.source import JsonLines, MDSShards, ParquetFiles, TarShards  # noqa: PLC0415

    figures: dict[str, float] = {}
    cache = folder / "cache"
    for size in (100_000, 1 << 20):
        store = CountingStore(folder)
        TarShards(f"{size}.tar", store=store, cache=cache)
        figures[f"% of 10 GB read, members of {size}"] = 100 * store.bytes_read / (10 << 30)
        figures[f"requests, members of {size}"] = len(store.requests)
    makers: dict[str, Callable[[CountingStore], Any]] = {
        "tar, index kept": lambda store: TarShards("100000.tar", store=store, cache=cache),
        "tar, DALI index": lambda store: TarShards("train-0.tar", index="train-0.idx", store=store, cache=cache),
        "JSON lines, index kept": lambda store: JsonLines("a.jsonl", store=store, cache=cache),
        "Parquet": lambda store: ParquetFiles("a.parquet", store=store),
        "MDS": lambda store: MDSShards("", store=store),
    }
    JsonLines("a.jsonl", store=CountingStore(folder), cache=cache)
    for name, make in makers.items():
        store = CountingStore(folder)
        make(store).__getitems__(range(32))
        figures[f"requests to the first batch, {name}"] = len(store.requests)
    return figures


PREPARE = {
    "shards, read": write_shards,
    "shards, decoded": lambda *_: None,
    "parquet, tables": write_parquet,
    "opening": write_archive,
}
WORK: dict[str, dict[str, Callable[[Path, int], dict[str, float]]]] = {
    "shards, read": {"spdl-turbo": read_by_us, "webdataset": read_by_webdataset},
    "shards, decoded": {"spdl-turbo": decode_by_us, "webdataset": decode_by_webdataset},
    "parquet, tables": {
        "spdl-turbo": partial(scan_by_us, stored=False),
        "spdl-turbo in a store": partial(scan_by_us, stored=True),
        "pyarrow": partial(scan_by_pyarrow, by_dataset=False),
        "pyarrow, dataset": partial(scan_by_pyarrow, by_dataset=True),
    },
    "opening": {"spdl-turbo": measure_opening},
}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(main(given["row"], Path(given["folder"]), given["contender"], given["count"])))
