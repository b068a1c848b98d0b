"""Writes the tokens that the contenders of a row read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def draw_lengths(documents: int) -> np.ndarray:
    """Return lengths of documents as text has them: lognormal, with a median of 400 tokens."""
    return np.maximum(np.random.default_rng(0).lognormal(np.log(400), 1, documents), 1).astype(np.int64)


def main(folder: Path, documents: int) -> dict[str, float]:
    """Write tokens of 16 bits as datatrove has them, and where the documents begin for the others."""
    lengths = draw_lengths(documents)
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
    np.cumsum(lengths).astype("<u8").tofile(folder / "tokens.ds.index")
    random = np.random.default_rng(1)
    with (folder / "tokens.ds").open("wb") as file:
        for count in np.diff(np.append(np.arange(0, lengths.sum(), 1 << 24), lengths.sum())).tolist():
            file.write(random.integers(0, 50_000, count, np.uint16).tobytes())
    return {"tokens": int(lengths.sum())}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(main(Path(given["folder"]), given["documents"])))
