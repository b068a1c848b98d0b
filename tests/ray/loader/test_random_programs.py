"""Random pipelines whose actors are killed, added and stopped at random moments deliver what a few lines say."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ray.work import descendants, kill, pids

from spdl.pipeline import PipelineBuilder
from spdl.ray import run_on_ray
from spdl.source import EpochSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.ray import RayLoader

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster"), pytest.mark.timeout(240)]

_SEED = 2_026


@dataclass
class _Record:
    number: int
    pixels: Any = field(default_factory=lambda: np.zeros(0))


class _Numbers:
    """A source that does not say how long it is."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return self.iterate_from(0)

    def iterate_from(self, position: int) -> Iterator[int]:
        return iter(range(position, self.count))


def _wrap(number: int, kind: str) -> Any:
    """Return what a number travels in."""
    if kind == "mixed":
        kind = ("int", "text", "record", "small", "big")[number % 5]
    made: dict[str, Callable[[], Any]] = {
        "int": lambda: number,
        "text": lambda: f"{number}:" + "x" * (number % 2_000),
        "record": lambda: _Record(number, np.full(number % 5, number)),
        "small": lambda: (number, np.full(9, number)),
        "big": lambda: (number, np.full(150_000, number % 251, np.uint8)),
    }
    return made[kind]()


def _number_in(value: Any) -> int:
    if isinstance(value, str):
        number, _, rest = value.partition(":")
        assert rest == "x" * (int(number) % 2_000)
        return int(number)
    if hasattr(value, "pixels"):
        assert (value.pixels == np.full(value.number % 5, value.number)).all()
        return int(value.number)
    if isinstance(value, tuple):
        number, pixels = value
        assert (pixels == (number if pixels.size == 9 else number % 251)).all()
        return int(number)
    return int(value)


def _results_of(x: int, op: str) -> list[int]:
    if op == "several":
        return [10_000 * each + x for each in range(x % 3)]
    return [] if op in {"drop", "fail"} and x % 3 == 1 else [x]


def _op(op: str, kind: str, delay: float) -> Callable[[int], Any]:
    def one(x: int) -> Any:
        if delay and x % 4 == 0:
            time.sleep(delay)
        results = _results_of(int(x), op)
        if not results and op == "fail":
            raise ValueError(x)
        return _wrap(results[0], kind) if results else None

    def several(x: int) -> Iterator[Any]:
        for result in _results_of(int(x), op):
            time.sleep(delay)
            yield _wrap(result, kind)

    return several if op == "several" else one


class _Program:
    def __init__(self, seed: int) -> None:
        self.random = r = random.Random(seed)  # noqa: S311 - no secret.
        self.order: Any = r.choice(["completion", "completion", "input"])
        self.count = r.choice([0, 1, 7, 40, 120, 250])
        self.source = r.choice([range, EpochSampler, _Numbers])
        self.op = r.choice(["plain", "drop", "fail", "several"])
        self.kind = r.choice(["int", "text", "record", "small", "big", "mixed"])
        self.batch = r.choice([0, 0, 1, 3, 8])
        self.concurrency = r.choice([1, 3])
        self.delay = r.choice([0.0, 0.002, 0.01])

    def make(self) -> RayLoader[Any]:
        r = self.random
        source = (
            EpochSampler(self.count, seed=3, rank=0, world_size=1)
            if self.source is EpochSampler
            else self.source(self.count)
        )
        builder = PipelineBuilder().add_source(source)
        op = _op(self.op, self.kind, self.delay)
        builder.pipe(op, concurrency=self.concurrency, output_order=self.order, name="op")
        if self.batch:
            builder.aggregate(self.batch)
        return run_on_ray(
            builder.add_sink(2).get_config(),
            num_actors=r.choice([1, 2, 3]),
            prefetch=r.choice([1, 2, 5]),
            lease=max(1, self.batch) * r.choice([1, 5, 30]),
            order=self.order,
            copy=r.random() < 0.3,
        )

    def expected(self) -> list[int]:
        numbers: Any = range(self.count)
        if self.source is EpochSampler:
            numbers = EpochSampler(self.count, seed=3, rank=0, world_size=1)
        return [result for x in numbers for result in _results_of(int(x), self.op)]

    def run(self) -> list[int]:
        """Read an epoch, and do things meanwhile. Return what came."""
        r = self.random
        got: list[int] = []
        loader = self.make()
        for _ in range(r.choice([0, 1, 3])):
            if self._read(loader, got, most=r.randrange(1, 60)):
                return got
            event = r.choice(["kill", "kill all", "resize", "leave", "stop", "resume"])
            if event.startswith("kill"):
                for pid in pids(loader)[: None if event == "kill all" else 1]:
                    with suppress(ProcessLookupError):
                        kill(pid)
            elif event == "resize":
                loader.resize(r.choice([1, 2, 4]))
            elif event == "stop":
                loader.stop()
            elif event == "resume":
                state = json.loads(json.dumps(loader.state_dict()))
                loader.stop()
                loader = self.make()
                loader.load_state_dict(state)
        assert self._read(loader, got, most=100_000)
        return got

    def _read(self, loader: RayLoader[Any], got: list[int], *, most: int) -> bool:
        """Read some results. Return whether the epoch is over."""
        for number, result in enumerate(loader, 1):
            got += map(_number_in, result if self.batch else [result])
            if number == most:
                return False
        loader.stop()
        return True


def _check(program: _Program, got: list[int]) -> None:
    expected = program.expected()
    assert Counter(got) == Counter(expected)
    if program.order == "input":
        assert got == expected


@pytest.mark.parametrize("seed", range(_SEED, _SEED + 6))
def test_a_random_program(seed: int) -> None:
    program = _Program(seed)
    _check(program, program.run())


def _workers() -> list[int]:
    """Return our processes of Ray that have an actor, or wait for one."""
    found = []
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith((b"ray::IDLE", b"ray::SpdlPipeline")):
                found.append(pid)
    return found


@pytest.mark.parametrize("seed", range(_SEED, _SEED + 2))
def test_a_random_program_whose_actors_are_killed_at_any_moment(seed: int) -> None:
    program = _Program(seed)
    r = random.Random(seed)  # noqa: S311 - no secret.
    program.count, program.delay = 200, 0.01
    over = threading.Event()

    def strike() -> None:
        while len(struck) < 4 and not over.wait(r.choice([0.01, 0.1, 0.3])):
            for pid in r.sample(there := _workers(), min(len(there), r.choice([1, 2]))):
                with suppress(ProcessLookupError):
                    kill(pid)
                    struck.append(pid)

    struck: list[int] = []
    thread = threading.Thread(target=strike)
    thread.start()
    try:
        got = program.run()
    finally:
        over.set()
        thread.join()
    assert struck
    _check(program, got)
