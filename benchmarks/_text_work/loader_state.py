"""Asks a loader of packed rows for its state at many steps. Prints its time and size, and the time of resuming."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

LENGTH = 1024
BATCH = 8
STEPS = 200


def main(folder: Path) -> dict[str, float]:
    """Read some steps, and go on from the last state with another loader."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from spdl.dataloader import TextLoader  # noqa: PLC0415 - the package is in one environment only.
    from spdl.source import TokenFiles  # noqa: PLC0415

    def make() -> TextLoader:
        files = TokenFiles(str(folder / "tokens.ds"))
        return TextLoader(files, BATCH, length=LENGTH, shuffle=True, num_threads=1, output="numpy")

    loader = make()
    times = []
    size = 0
    state: dict[str, Any] = {}
    for _, _ in zip(range(STEPS), loader, strict=False):
        begin = time.perf_counter()
        state = loader.state_dict()
        times.append(time.perf_counter() - begin)
        size = max(size, len(json.dumps(state)))
    begin = time.perf_counter()
    resumed = make()
    resumed.load_state_dict(state)
    next(iter(resumed))
    return {"state us": 1e6 * median(times), "bytes": size, "resumed ms": 1000 * (time.perf_counter() - begin)}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(main(Path(given["folder"]))))
