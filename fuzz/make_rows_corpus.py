"""Write the inputs that the fuzzer of packed rows starts from: `python fuzz/make_rows_corpus.py fuzz/corpus/rows`."""

from __future__ import annotations

import struct
import sys
from pathlib import Path


def _input(lengths: list[int], *options: int) -> bytes:
    """Return the head, the lengths, and changes of one number each.

    The options are the algorithm, the split, the length of a row, the alignment, the labels, the type of the tokens,
    and whether there are masks.
    """
    head = struct.pack("<BBHBBBB", *options)
    changes = [(column, 1, value) for column in range(4) for value in (0, 3, -1, 1 << 62)]
    return (
        head
        + struct.pack(f"<{len(lengths) + 1}H", *lengths, 0xFFFF)
        + b"".join(struct.pack("<BBq", *change) for change in changes)
    )


def corpus() -> dict[str, bytes]:
    """Return the inputs by the names of their files."""
    lengths = [7, 0, 12, 3, 40, 16, 1, 9, 5]
    return {
        "best-fit.rows": _input(lengths, 0, 1, 16, 1, 1, 2, 1),
        "first-fit.rows": _input(lengths, 1, 0, 16, 4, 2, 5, 1),
        "concat.rows": _input(lengths, 2, 2, 17, 1, 1, 1, 1),
        "next-fit.rows": _input(lengths, 2, 1, 12, 3, 0, 7, 1),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in corpus().items():
        (folder / name).write_bytes(data)
