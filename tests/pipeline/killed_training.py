"""A training program that is killed at any moment: it saves checkpoints and goes on from the last one.

Run as ``python -m tests.pipeline.killed_training FOLDER [BATCHES]``. After so many batches it kills itself.

Each item that it has trained on is a line of a file, and each checkpoint says how long the part of the file is that
counts. So what came after the last checkpoint is trained on again, as the model does not have it, and nothing else is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import Pipeline

EPOCHS = 3
SIZE = 400
_SAVE_EVERY = 7


def load(x: int) -> int | None:
    if x % 11 == 0:
        time.sleep(0.001)
    if x % 13 == 0:
        return None
    return x


def crops(x: int) -> Iterator[int]:
    yield x
    if x % 3 == 0:
        yield x + 1000


def build() -> Pipeline[Any]:
    return (
        PipelineBuilder()
        .add_source(range(SIZE), continuous=True)
        .pipe(load, concurrency=3)
        .pipe(crops, concurrency=2)
        .aggregate(4)
        .pipe(list, concurrency=2)
        .disaggregate()
        .aggregate(3)
        .add_sink(3)
        .build(num_threads=3)
    )


def expected() -> list[int]:
    """Return what an epoch has, in order."""
    return sorted(y for x in range(SIZE) if x % 13 for y in crops(x))


def main(folder: Path, batches: int = 0) -> None:
    """Train, from the last checkpoint on."""
    left = batches
    log, checkpoint = folder / "log", folder / "checkpoint"
    pipeline = build()
    state: dict[str, Any] = {"bytes": 0, "epoch": 0, "loader": None}
    if checkpoint.exists():
        state = json.loads(checkpoint.read_text())
        pipeline.load_state_dict(state["loader"])
    # What counts is never written anew: the program may be killed in between.
    with log.open("ab") as file, pipeline.auto_stop():
        file.truncate(state["bytes"])
        for epoch in range(state["epoch"], EPOCHS):
            for step, batch in enumerate(pipeline):
                file.writelines(f"{epoch} {x}\n".encode() for x in batch)
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step % _SAVE_EVERY == 0:
                    _save(checkpoint, _written(file) | {"epoch": epoch, "loader": pipeline.state_dict()})
            _save(checkpoint, _written(file) | {"epoch": epoch + 1, "loader": pipeline.state_dict()})
    (folder / "done").touch()


def _written(file: BinaryIO) -> dict[str, Any]:
    file.flush()
    return {"bytes": os.fstat(file.fileno()).st_size}


def _save(path: Path, state: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
