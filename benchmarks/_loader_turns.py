"""The turns of the contenders of `loaders.py`: the cases that each measures, and their results."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from _job_server import JobServer
from _loader_contenders import BARE, CONTENDERS
from _turns import JobFailedError, why_left_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Case = tuple[str, int | None]

WORK = Path(__file__).with_name("_loaders_work")
STEPS = ("decode", "batch", "normalise", "transfer")
MAIN_STEP = "normalise"
"""The step whose items a training loop takes. It decides the best number of workers if not all are tried."""
FIGURES = ("images_per_second", "cpu_ms_per_image", "memory_mib", "first_seconds")
LARGEST_DIFFERENCE = 4.0
"""The average difference from Pillow's pixels, in levels of 255. Other filters stay below; no antialiasing exceeds."""


class Turns:
    """The turns of all contenders.

    Attributes:
        found: The figures of each turn, by contender, step and number of workers.
        absent: The reasons why contenders, or some of their steps, are missing.
        versions: The version of each contender.
        differences: The difference of each contender's pixels from Pillow's.
    """

    def __init__(
        self, folder: Path, seconds: float, commands: Mapping[str, tuple[str, ...]], absent: Mapping[str, str]
    ) -> None:
        self.found: dict[tuple[str, str, int], list[dict[str, float]]] = {}
        self.absent = dict(absent)
        self.versions: dict[str, str] = {}
        self.differences: dict[str, float] = {}
        self._folder = folder
        self._seconds = seconds
        self._commands = commands
        self._kept: dict[str, JobServer] = {}

    @contextmanager
    def one_process_each(self) -> Iterator[None]:
        """Let each contender do all turns until the block ends in one process, which imports its modules once."""
        with ExitStack() as servers:
            servers.callback(self._kept.clear)
            for name in self._commands:
                self._kept[name] = self._start(name)
                servers.callback(self._kept[name].close)
            for name, server in self._kept.items():
                self._await(name, server)
            yield

    def take(self, name: str, cases: Sequence[Case]) -> None:
        """Let one contender measure these cases, by default in a process of their own."""
        if name in self._kept:
            self._measure(name, self._kept[name], cases)
            return
        server = self._start(name)
        try:
            if self._await(name, server):
                self._measure(name, server, cases)
        finally:
            server.close()

    def _start(self, name: str) -> JobServer:
        server = JobServer(self._commands[name], WORK)
        server.send({"work": "steps.get_ready", "loader": CONTENDERS[name].program})
        return server

    def _await(self, name: str, server: JobServer) -> bool:
        try:
            self.versions[name] = server.receive().get(CONTENDERS[name].distribution, "")
        except JobFailedError as reason:
            self.absent[name] = why_left_out(name, reason)
        return name not in self.absent

    def _measure(self, name: str, server: JobServer, cases: Sequence[Case]) -> None:
        contender = CONTENDERS[name]
        arguments: dict[str, Any] = {
            "work": "steps.measure",
            "loader": contender.program,
            "keywords": contender.keywords,
            "folder": str(self._folder),
            "cases": cases,
            "seconds": self._seconds,
        }
        with tempfile.TemporaryDirectory(prefix="spdl-loaders-") as folder:
            sample = Path(folder, "sample.npy")
            look = name != BARE and name not in self.differences
            if look:
                arguments["sample"] = str(sample)
            try:
                rows = server.run(arguments)["rows"]
                if look:
                    self.differences[name] = compared(sample, self._folder)
            except JobFailedError as reason:
                self.absent[name] = why_left_out(name, reason)
                return
        for row in rows:
            if "unavailable" in row:
                self.absent[f"{name}: {row['step']}"] = row["unavailable"]
            else:
                self.found.setdefault((name, row["step"], row["workers"]), []).append(row)

    def rows(self) -> list[dict[str, Any]]:
        """Return the medians of the contenders that failed in no turn."""
        return [
            {
                "contender": name,
                "step": step,
                "workers": workers,
                **{figure: median(each[figure] for each in turns) for figure in FIGURES},
            }
            for (name, step, workers), turns in self.found.items()
            if name not in self.absent
        ]


def compared(sample: Path, folder: Path) -> float:
    """Return how far a contender's first batch is from Pillow's.

    Raises:
        JobFailedError: The picture is a different one.
    """
    batch = np.load(sample)
    _, height, width, _ = batch.shape
    photos = sorted(folder.glob("*.jpg"))[: len(batch)]
    pictures = [Image.open(it).convert("RGB").resize((width, height), Image.Resampling.BILINEAR) for it in photos]
    with_pillow = np.stack([np.asarray(it) for it in pictures])
    difference = float(np.abs(batch.astype(np.float32) - with_pillow).mean())
    if difference > LARGEST_DIFFERENCE:
        raise JobFailedError(f"its pixels are {difference:.1f} levels from Pillow's: it does other work")
    return difference


def all_cases(name: str, steps: Iterable[str], workers: Sequence[int]) -> list[Case]:
    """Return all steps with all numbers of workers."""
    return [(step, it) for step in (("bare",) if name == BARE else steps) for it in workers]


def some_cases(name: str, steps: Iterable[str], workers: Sequence[int], best: int | None) -> list[Case]:
    """Return the main step with all numbers of workers, and the others with the best one. None: still to be found."""
    if name == BARE:
        return all_cases(name, (), workers)
    return [(MAIN_STEP, it) for it in workers] + [(step, best) for step in steps if step != MAIN_STEP]
