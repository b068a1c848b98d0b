"""Files of samples behind a table of where each begins, written without the libraries whose formats they are."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["write_mds", "write_packed"]


def write_packed(path: Path, samples: list[bytes], gap: int = 0) -> None:
    """Write samples behind their number and the places of all, and a gap."""
    places = [4 * (len(samples) + 2) + gap]
    for sample in samples:
        places.append(places[-1] + len(sample))
    path.write_bytes(struct.pack(f"<{len(places) + 1}I", len(samples), *places) + bytes(gap) + b"".join(samples))


def write_mds(folder: Path, columns: dict[str, tuple[str, int | None]], shards: list[list[bytes]]) -> None:
    """Write shards of samples that are encoded, with columns by their encodings and sizes."""
    folder.mkdir(exist_ok=True)
    listed = []
    for number, samples in enumerate(shards):
        write_packed(folder / f"{number}.mds", samples, 4)
        stored = {"basename": f"{number}.mds", "bytes": (folder / f"{number}.mds").stat().st_size, "hashes": {}}
        shard: dict[str, Any] = {"format": "mds", "version": 2, "samples": len(samples), "compression": None}
        shard |= {"column_names": list(columns), "hashes": [], "size_limit": 1 << 26}
        shard |= {"column_encodings": [kind for kind, _ in columns.values()]}
        shard |= {"column_sizes": [size for _, size in columns.values()], "raw_data": stored, "zip_data": None}
        listed.append(shard)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": listed}))
