"""Random programs with regions whose processes die: of their items, or killed from outside."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Key = tuple[int, ...]

__all__ = ["Item", "Op", "Planned", "Program", "alike", "payload"]


class Planned(Exception):  # noqa: N818 - a test's.
    """Ops and items raise it on purpose."""


def payload(key: Key, kind: str) -> Any:
    """Return the content of an item."""
    number = sum((i + 1) * k for i, k in enumerate(key))
    kinds: dict[str, Callable[[], Any]] = {
        "number": lambda: number,
        "empty": lambda: np.empty((0, 3)),
        "strided": lambda: np.arange(6000 + number)[::-3],
        "nested": lambda: {"a": [np.full(3000, number), (b"x" * number, None)], number: np.zeros(())},
        "large": lambda: np.full(2_000_000, number % 256, np.uint8),
    }
    return kinds[kind]()


def alike(a: Any, b: Any) -> bool:
    """Return whether two contents are the same."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return alike(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)


class Item:
    """Knows where it comes from, and may refuse to cross.

    Args:
        key: Its position in the source, and the index of each generator's result.
        kind: The kind of its content.
        fuse: What crossing does: "pickle" and "unpickle" raise there, "kill" ends the process that unpickles it.
    """

    def __init__(self, key: Key, kind: str, fuse: str | None = None) -> None:
        self.key = key
        self.kind = kind
        self.fuse = fuse
        self.content = payload(key, kind)

    def __reduce__(self) -> Any:
        if self.fuse == "pickle":
            raise Planned
        return _load, (self.__dict__, os.getpid())


def _load(state: dict[str, Any], pickled_in: int) -> Item:
    if os.getpid() != pickled_in:
        if state["fuse"] == "unpickle":
            raise Planned
        if state["fuse"] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    item = Item.__new__(Item)
    item.__dict__.update(state)
    return item


class Action(NamedTuple):
    """What an op does with an item: "raise", "sleep", "kill" its process so many times, or set the item's "fuse"."""

    what: str
    times: int = 0
    fuse: str | None = None


@dataclass
class Op:
    """A stage, and its op unless it gathers or takes apart."""

    name: str
    kind: str  # "sync", "async", "generator", "aggregate" or "disaggregate".
    region: int  # 0 is this process.
    concurrency: int = 1
    keep_order: bool = False
    number: int = 1  # Of an item's results, or of a batch's items.
    actions: dict[int, Action] = field(default_factory=dict)  # By position.
    folder: str = ""  # Remembers what happens only so many times, across processes.

    def does(self, position: int) -> Action:
        return self.actions.get(position, Action("nothing"))

    def __call__(self, given: Any) -> Any:
        if self.kind == "generator":
            return self._several(given)
        return self._later(given) if self.kind == "async" else self._one(given)

    def _one(self, given: Any) -> Any:
        return [self._act(item) for item in given] if isinstance(given, list) else self._act(given)

    async def _later(self, given: Any) -> Any:
        await asyncio.sleep(0)
        return self._one(given)

    def _several(self, item: Item) -> Iterator[Item]:
        self._act(item)
        for index in range(self.number):
            yield Item((*item.key, index), item.kind, item.fuse)

    def _act(self, item: Item) -> Item:
        action = self.does(item.key[0])
        if action.what == "raise":
            raise Planned(self.name)
        if action.what == "kill":
            self._kill(item.key[0], action.times)
        if action.what == "fuse":
            item.fuse = action.fuse
        if action.what == "sleep":
            time.sleep(0.02)
        return item

    def _kill(self, position: int, times: int) -> None:
        for index in range(times):
            mark = Path(self.folder, f"{self.name}-{position}-{index}")
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)


class Program:
    """A chain of stages of which one part or two are in regions. The items are from position 0 on."""

    def __init__(self, seed: int, folder: str) -> None:
        self.rng = rng = random.Random(seed)  # noqa: S311 - no secret.
        self.seed = seed
        self.folder = folder
        self.count = rng.choice([1, 3, 8, 20, 40])
        self.epochs = rng.choice([1, 1, 2])
        self.on_death = rng.choice(["rerun", "rerun", "rerun", "fail"])
        self.keep_order = rng.random() < 0.4
        self.kinds = rng.choices(["number", "number", "empty", "strided", "nested", "large"], k=3)
        self.workers = [rng.choice([1, 2, 2, 3]) for _ in range(rng.choice([1, 1, 2]))]
        self.reading = rng.choice(["all", "all", "all", "break", "stop"])
        self.kills = rng.choice([0, 0, 0, 1, 2, 4])  # From outside.
        self.fuses: dict[int, str] = {}
        if rng.random() < 0.3:
            self.fuses[rng.randrange(self.count)] = rng.choice(["pickle", "unpickle", "kill"])
        self.deadly = list(self.fuses.values()).count("kill")
        self.ops: list[Op] = []
        self._add_stages()

    def _add_stages(self) -> None:
        in_batches = False
        for region in range(len(self.workers) + 1):
            for _ in range(self.rng.choice([1, 2, 3]) if region else self.rng.choice([0, 1])):
                op = self._draw(region, in_batches=in_batches)
                in_batches = in_batches or op.kind == "aggregate"
                self.ops.append(op)
            if region and in_batches:
                self.ops.append(Op(f"s{len(self.ops)}", "disaggregate", 0))
                in_batches = False

    def _draw(self, region: int, *, in_batches: bool) -> Op:
        rng = self.rng
        kind = rng.choice(["sync", "sync", "async", "generator", "aggregate"])
        # A region cannot both keep the order and gather.
        if (in_batches and kind in {"generator", "aggregate"}) or (kind == "aggregate" and region and self.keep_order):
            kind = "sync"
        op = Op(f"s{len(self.ops)}", kind, region, rng.choice([1, 2, 3]), self.keep_order, rng.choice([0, 1, 2, 4]))
        op.folder = self.folder
        if kind == "aggregate":
            op.number = rng.choice([1, 2, 5])
            return op
        for position in rng.sample(range(self.count), min(self.count, rng.choice([0, 1, 1]))):
            what = rng.choice(["raise", "sleep", *(["kill", "kill", "fuse"] if region else [])])
            if what == "kill":
                # Ten deaths in a row fail the pipeline.
                if self.deadly == 2:
                    continue
                self.deadly += 1
            if what == "fuse":
                op.actions[position] = Action(what, fuse=rng.choice(["pickle", "unpickle"]))
            else:
                op.actions[position] = Action(what, rng.choice([1, 2, 9]))
        return op

    def build(self) -> Pipeline[Any]:
        items = [Item((i,), self.kinds[i % 3], self.fuses.get(i)) for i in range(self.count)]
        builder: Any = PipelineBuilder[Any, Any]().add_source(items, continuous=self.epochs > 1)
        place = 0
        for op in self.ops:
            if op.region != place:
                place = op.region
                builder = builder.to(self._target(place))
            if op.kind == "aggregate":
                builder = builder.aggregate(op.number)
            elif op.kind == "disaggregate":
                builder = builder.disaggregate()
            else:
                order = "input" if op.keep_order else "completion"
                builder = builder.pipe(op, name=op.name, concurrency=op.concurrency, output_order=order)
        if place:
            builder = builder.to(MAIN_PROCESS)
        pipeline: Pipeline[Any] = builder.add_sink(2).build(num_threads=2)
        return pipeline

    def _target(self, place: int) -> Any:
        if not place:
            return MAIN_PROCESS
        on_death: Any = self.on_death
        return ProcessPoolExecutorConfig(self.workers[place - 1], on_death=on_death)

    def results(self, position: int) -> list[Key]:
        """Return the keys that come of an item where nothing happens to it."""
        keys: list[Key] = [(position,)]
        for op in self.ops:
            if op.kind == "generator":
                keys = [(*key, index) for key in keys for index in range(op.number)]
        return keys
