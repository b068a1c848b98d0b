"""Packs lengths into rows, by us or by seqpacker. Prints the sequences in a second and the share of tokens used."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 5
LENGTH = 4096


def by_us(lengths: np.ndarray, algorithm: str) -> Callable[[], int]:
    """Return what packs by our native part, and returns the number of rows."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from spdl.io._shared import PackingRule  # noqa: PLC0415 - the package is in one environment only.

    rule = PackingRule.of(LENGTH, algorithm=algorithm, split="never", align=1)
    return lambda: len(rule.pack(lengths).offsets) - 1


def by_seqpacker(lengths: np.ndarray, algorithm: str) -> Callable[[], int]:
    """Return what packs by seqpacker, to arrays."""
    import seqpacker  # noqa: PLC0415

    strategy = {"best-fit": "obfd", "first-fit": "ff"}[algorithm]
    packer = seqpacker.Packer(capacity=LENGTH, strategy=strategy)

    def pack() -> int:
        _, offsets = packer.pack_flat(lengths)
        return len(offsets)

    return pack


def main(contender: str, algorithm: str, documents: int) -> dict[str, float]:
    """Pack the same lengths some times."""
    drawn = np.random.default_rng(0).lognormal(np.log(400), 1, documents)
    # No longer than a row, since seqpacker splits none.
    lengths = np.clip(drawn, 1, LENGTH).astype(np.int64)
    pack = {"spdl-turbo": by_us, "seqpacker": by_seqpacker}[contender](lengths, algorithm)
    rows = pack()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        assert pack() == rows
        times.append(time.perf_counter() - start)
    used = 100 * float(lengths.sum()) / (rows * LENGTH)
    return {"per second": documents / median(times), "% used": used}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(main(given["contender"], given["algorithm"], given["documents"])))
