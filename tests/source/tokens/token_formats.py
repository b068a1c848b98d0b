"""Token files of every format, written by their documented layouts without the libraries whose formats they are."""

from __future__ import annotations

import csv
import gzip
import importlib
import importlib.util
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.source.packed_files import write_mds, write_packed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["FORMATS", "Documents", "joined", "write_arrow", "write_megatron", "write_parquet"]

Documents = list[np.ndarray[Any, Any]]

_MEGATRON = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}


def joined(documents: Documents, dtype: str) -> np.ndarray[Any, Any]:
    """Return the tokens of all documents, one after the other."""
    return np.concatenate([np.empty(0, dtype), *documents]).astype(dtype)


def write_megatron(
    path: Path, sequences: Documents, dtype: str = "uint16", *, bounds: Sequence[int] | None = None, modes: bool = False
) -> None:
    """Write a .bin and an .idx of sequences, each a document unless the bounds of documents are given."""
    tokens = joined(sequences, dtype)
    tokens.tofile(path.with_suffix(".bin"))
    sizes = np.array([len(each) for each in sequences], "<i4")
    places = (np.cumsum(sizes, dtype="<i8") - sizes) * tokens.itemsize
    documents = np.array(range(len(sequences) + 1) if bounds is None else bounds, "<i8")
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, _MEGATRON[dtype], len(sequences), len(documents))
    arrays = [sizes, places.astype("<i8"), documents, *([np.zeros(len(sequences), "i1")] if modes else [])]
    path.with_suffix(".idx").write_bytes(head + b"".join(each.tobytes() for each in arrays))


def _write_megatron(path: Path, documents: Documents) -> Path:
    write_megatron(path, documents)
    return path.with_suffix(".bin")


def _write_dolma(path: Path, documents: Documents) -> Path:
    joined(documents, "uint16").tofile(path.with_suffix(".npy"))
    place = 0
    with gzip.open(f"{path}.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        for number, document in enumerate(documents):
            writer.writerow([place, place + len(document), f'a "{number}",\nb', "corpus.jsonl.gz", number])
            place += len(document)
    return path.with_suffix(".npy")


def _write_datatrove(path: Path, documents: Documents, dtype: str = "uint16") -> Path:
    joined(documents, dtype).tofile(path.with_suffix(".ds"))
    np.cumsum([len(each) for each in documents], dtype="<u8").tofile(f"{path}.ds.index")
    return path.with_suffix(".ds")


def _write_datatrove_wide(path: Path, documents: Documents) -> Path:
    return _write_datatrove(path, documents, "uint32")


def _write_litdata(path: Path, documents: Documents) -> Path:
    path.mkdir()
    chunks = []
    for number, part in enumerate((documents[: len(documents) // 2], documents[len(documents) // 2 :])):
        file = path / f"chunk-0-{number}.bin"
        write_packed(file, [each.astype("<i4").tobytes() for each in part])
        size = sum(map(len, part))
        chunks.append({"chunk_bytes": 4 * size, "chunk_size": len(part), "dim": size, "filename": file.name})
    config: dict[str, Any] = {"chunk_bytes": 1 << 26, "chunk_size": None, "compression": None, "encryption": None}
    config |= {"data_format": ["no_header_tensor:16"], "item_loader": "TokensLoader"}
    config["data_spec"] = '[1, {"type": null, "context": null, "children_spec": []}]'
    (path / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))
    return path


def _write_mds(path: Path, documents: Documents) -> Path:
    def encode(document: np.ndarray[Any, Any], number: int) -> bytes:
        # One dimension, whose size has 32 bits.
        array = bytes([1 * 4 + 2]) + struct.pack("<I", len(document)) + document.astype("<u2").tobytes()
        name = f"document {number}".encode()
        return struct.pack("<II", len(name), len(array)) + name + array

    columns: dict[str, tuple[str, int | None]] = {"id": ("str", None), "tokens": ("ndarray:uint16", None)}
    write_mds(path, columns, [[encode(each, number) for number, each in enumerate(documents)]])
    return path


def _column(documents: Documents) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    kind = pa.list_(pa.uint16())
    ids = pa.array([each.tolist() for each in documents], kind)
    # Several pieces, of which the last begins in the middle of its memory.
    cut = len(documents) // 3
    return pa.table({"id": pa.array(range(len(ids))), "input_ids": pa.chunked_array([ids[:cut], ids[cut:]], kind)})


def write_parquet(path: Path, documents: Documents) -> Path:
    """Write lists of ids into row groups of a few."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(_column(documents), path.with_suffix(".parquet"), row_group_size=2)
    return path.with_suffix(".parquet")


def write_arrow(path: Path, documents: Documents, *, stream: bool = False) -> Path:
    """Write lists of ids into several record batches of a file, or of a stream."""
    import pyarrow as pa  # noqa: PLC0415

    table = _column(documents)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(path.with_suffix(".arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path.with_suffix(".arrow")


def _write_stream(path: Path, documents: Documents) -> Path:
    return write_arrow(path, documents, stream=True)


FORMATS: dict[str, Callable[[Path, Documents], Path]] = {
    "megatron": _write_megatron,
    "dolma": _write_dolma,
    "datatrove": _write_datatrove,
    "datatrove of 32 bits": _write_datatrove_wide,
    "litdata": _write_litdata,
    "mds": _write_mds,
}
"""What writes documents of 16 bits, and returns what is to be opened."""

if importlib.util.find_spec("pyarrow"):
    importlib.import_module("pyarrow.parquet")  # Before the first test, which would be said to leave its threads.
    FORMATS |= {"parquet": write_parquet, "arrow": write_arrow, "arrow stream": _write_stream}
