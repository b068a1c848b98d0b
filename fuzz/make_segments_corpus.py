"""Write the inputs that the fuzzer of segmentations starts from: `python fuzz/make_segments_corpus.py FOLDER`."""

from __future__ import annotations

import struct
import sys
from pathlib import Path


def _head(kind: int, numbers: int = 0) -> bytes:
    """Return the head of an input about a picture of 12x9 pixels."""
    return struct.pack("<BBBB", kind, 11, 8, numbers - 1 if numbers else 0)


def corpus() -> dict[str, bytes]:
    """Return the inputs by the names of their files."""
    runs = [10, 3, 6, 3, 6, 3, 40, 20, 17]
    polygon = [1.0, 1.0, 9.5, 2.0, 7.25, 8.0, -3.0, 6.0]
    star = [6.0, 0.0, 9.0, 9.0, 0.0, 3.0, 12.0, 3.0]
    return {
        "text.segments": _head(0) + b":36000R1a0YO",
        "runs.segments": _head(1) + struct.pack(f"<{len(runs)}q", *runs),
        "polygons.segments": _head(2, 8) + struct.pack("<16d", *polygon, *star),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in corpus().items():
        (folder / name).write_bytes(data)
