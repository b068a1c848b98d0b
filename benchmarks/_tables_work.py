"""One contender reads a table, and prints its figures as JSON. `benchmarks/tables.py` runs it."""

from __future__ import annotations

import json
import random
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]

BATCH = 8192
GROUP = 100_000
FILES = 4
# Row groups that are shuffled together, by those that hold only a part in memory.
WINDOW = 8
# So many rows of a contender that takes minutes for all are enough to know its speed.
ENOUGH = 200_000


def main(contender: str, folder: Path, rows: int) -> dict[str, float]:
    """Write the table, or do the work of a contender."""
    if contender == "prepare":
        write_table(folder, rows)
        return {}
    read, most = CONTENDERS[contender]
    return timed(lambda: read(folder), min(rows, most))


def timed(read: Callable[[], Iterator[int]], rows: int) -> dict[str, float]:
    """Return how fast rows come from the moment on in which the loader is made, imports not counted."""
    for module in ("torch", "pyarrow.parquet", "datasets", "spdl.dataloader._table.table_loader"):
        import_module(module)
    start = time.perf_counter()
    cpu = time.process_time()
    batches = read()
    done = next(batches)
    first = time.perf_counter() - start
    while done < rows:
        done += next(batches)
    elapsed = time.perf_counter() - start
    return {
        "rows per second": done / elapsed,
        "first batch, ms": first * 1000,
        "CPU ns per row": (time.process_time() - cpu) / done * 1e9,
    }


def write_table(folder: Path, rows: int) -> None:
    """Write files of ten columns: clicks, as a recommender might log them."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    for file in range(FILES):
        rng = np.random.default_rng(file)
        n = rows // FILES
        offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 9, n))]).astype(np.int32)
        tags = pa.ListArray.from_arrays(offsets, rng.integers(0, 1 << 20, offsets[-1]).astype(np.int32))
        kinds = [f"category {number}" for number in range(50)]
        table = pa.table(
            {
                "user": rng.integers(0, 1 << 40, n),
                "hour": rng.integers(0, 1000, n),
                "item": rng.integers(0, 100_000, n).astype(np.int32),
                "label": rng.integers(0, 2, n).astype(np.int8),
                "a": rng.random(n, dtype=np.float32),
                "b": rng.random(n, dtype=np.float32),
                "c": rng.random(n, dtype=np.float32),
                "price": rng.random(n),
                "tags": tags,
                "kind": pa.DictionaryArray.from_arrays(rng.integers(0, 50, n).astype(np.int32), kinds),
            }
        )
        pq.write_table(table, folder / f"clicks-{file}.parquet", row_group_size=GROUP)


def read_by_us(folder: Path, **options: Any) -> Iterator[int]:
    """Yield the sizes of our batches."""
    from spdl.dataloader import TableLoader  # noqa: PLC0415

    files = folder / f"clicks-{{0..{FILES - 1}}}.parquet"
    for batch in TableLoader(files, BATCH, shuffle=True, num_threads=2, **options):
        yield len(batch["label"])


def read_windows_by_us(folder: Path) -> Iterator[int]:
    """Yield the sizes of our batches with as much memory as the dataset of torch takes."""
    return read_by_us(folder, cache_bytes=2 * WINDOW * GROUP * 90)


def read_by_torch(folder: Path, workers: int) -> Iterator[int]:
    """Yield the sizes of batches of torch's loader."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415
    import torch  # noqa: PLC0415

    class Clicks(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        """Windows of row groups in a random order, whose rows are shuffled together."""

        def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
            files = [pq.ParquetFile(path, memory_map=True) for path in sorted(folder.glob("*.parquet"))]
            groups = [(file, number) for file in files for number in range(file.num_row_groups)]
            random.Random(0).shuffle(groups)  # noqa: S311 - no secret.
            worker = torch.utils.data.get_worker_info()
            if worker is not None:
                groups = groups[worker.id :: worker.num_workers]
            rng = np.random.default_rng(0)
            for first in range(0, len(groups), WINDOW):
                tables = [file.read_row_group(number) for file, number in groups[first : first + WINDOW]]
                window = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
                order = rng.permutation(len(window))
                for start in range(0, len(window), BATCH):
                    yield self.to_tensors(window.take(pa.array(order[start : start + BATCH])))

        @staticmethod
        def to_tensors(table: Any) -> dict[str, torch.Tensor]:
            tensors = {}
            for name, column in zip(table.column_names, table.columns, strict=True):
                array = column.combine_chunks()
                if name == "tags":
                    tensors["tags"] = torch.from_numpy(np.array(array.values))
                    tensors["offsets"] = torch.from_numpy(np.array(array.offsets))
                else:
                    array = array.indices if name == "kind" else array
                    tensors[name] = torch.from_numpy(np.array(array))
            return tensors

    for batch in torch.utils.data.DataLoader(Clicks(), batch_size=None, num_workers=workers):
        yield len(batch["label"])


def read_by_datasets(folder: Path) -> Iterator[int]:
    """Yield the sizes of batches of a streaming dataset."""
    from datasets import load_dataset  # noqa: PLC0415
    from datasets.utils import disable_progress_bars  # noqa: PLC0415

    disable_progress_bars()
    files = [str(path) for path in sorted(folder.glob("*.parquet"))]
    stream = load_dataset("parquet", data_files=files, split="train", streaming=True, cache_dir=str(folder / "cache"))
    shuffled = stream.shuffle(seed=0, buffer_size=10_000).with_format("torch")
    for batch in shuffled.iter(batch_size=BATCH):
        yield len(batch["label"])


ALL = sys.maxsize
CONTENDERS: dict[str, tuple[Callable[[Path], Iterator[int]], int]] = {
    "spdl-turbo": (read_by_us, ALL),
    "spdl-turbo, windows": (read_windows_by_us, ALL),
    "pyarrow + torch": (lambda folder: read_by_torch(folder, 0), ALL),
    "pyarrow + torch, 2 workers": (lambda folder: read_by_torch(folder, 2), ALL),
    "datasets, streaming": (read_by_datasets, ENOUGH),
}

if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    print(json.dumps(main(task["contender"], Path(task["folder"]), task["rows"])))
