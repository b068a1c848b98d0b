"""Which parts of which files the whole loaders load: 8 clips of 16 frames from each file, at random places."""

from __future__ import annotations

import random
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIPS, LENGTH = 8, 16


class Task(NamedTuple):
    """A file to load clips from.

    Attributes:
        path: The file.
        seed: The seed of the places where the clips start.
    """

    path: str
    seed: int

    def starts(self, frames: int) -> list[int]:
        """Return where the clips start, in order, in a file of so many frames."""
        chance = random.Random(self.seed)  # noqa: S311
        return sorted(chance.randrange(frames - LENGTH) for _ in range(CLIPS))


def endless_tasks(folder: str, number: int) -> Iterator[Task]:
    """Return so many tasks. Files come again when there are no more."""
    paths = sorted(str(path) for path in (Path(folder) / "files").glob("*.mp4"))
    return (Task(path, seed) for seed, path in enumerate(islice(cycle(paths), number)))


def indices(starts: list[int]) -> list[int]:
    """Return the numbers of all frames of the clips."""
    return [start + offset for start in starts for offset in range(LENGTH)]
