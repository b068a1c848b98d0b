"""Programs with regions, drawn by seeds, and what plain loops make of the same items."""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.pipeline.regions import ops

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, TaskHook
from spdl.pipeline.defs import MAIN_PROCESS, Pipe, ProcessPoolExecutorConfig, ThreadPoolExecutorConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["Program"]


class Step(NamedTuple):
    """A stage: how it is added, and what it makes of an item. None if it gathers and takes apart again.

    An item that fails is none of its results.
    """

    name: str
    op: Any
    makes: Callable[[int], list[int]] | None
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it.
    fails: Callable[[int], bool] | None = None


class Flaky:
    """Fails some items a number of times in each process, and others always."""

    def __init__(self, times: int, always: int) -> None:
        self.times = times
        self.always = always
        self.seen: Counter[int] = Counter()

    def __call__(self, x: int) -> int:
        self.seen[x] += 1
        if x % 7 == self.always or (x % 3 == 0 and self.seen[x] <= self.times):
            raise ConnectionError(f"{x} failed for the {self.seen[x]}. time")
        return x


class Deadly:
    """Ends its process at some items: always, or the first time in all."""

    def __init__(self, at: list[int], how: str, once_in: str | None) -> None:
        self.at = frozenset(at)
        self.how = how
        self.once_in = once_in

    def __call__(self, x: int) -> int:
        if x in self.at:
            if self.once_in is not None:
                mark = Path(self.once_in) / str(x)
                if mark.exists():
                    return x
                mark.touch()
            if self.how == "exit":
                os._exit(5)
            os.kill(os.getpid(), signal.SIGKILL)
        return x


class Hook(TaskHook):
    """Does nothing, but stands around each task."""

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


def hooks(_info: object) -> list[TaskHook]:
    return [Hook()]


def _steps(rng: random.Random) -> list[Step]:
    order = {"output_order": "input"}
    paths = [[Pipe(ops.negative)], [Pipe(ops.same), Pipe(ops.three)]]
    size = rng.choice([1, 2, 5])
    return [
        Step("pipe", ops.same, lambda x: [x]),
        Step("pipe", ops.negative, lambda x: [-x], order),
        Step("pipe", ops.three, lambda x: list(ops.three(x))),
        Step("pipe", ops.three, lambda x: list(ops.three(x)), order),
        Step("pipe", ops.odd_only, lambda x: [x] if x % 2 else []),
        Step("pipe", ops.odd_only, lambda x: [x] if x % 2 else [], order),
        Step("pipe", ops.later, lambda x: [x + 1]),
        Step("pipe", ops.later, lambda x: [x + 1], {**order, "timeout": 60}),
        Step("pipe", ops.twice_later, lambda x: [10 * x, 10 * x + 1]),
        Step("pipe", ops.uneven, lambda x: [x], {"timeout": 60, "on_timeout": "drop"}),
        Step("path_variants", (ops.by_parity, paths), lambda x: list(ops.three(x)) if x % 2 else [-x]),
        Step("gather", size, None),
    ]


class Program:
    """A chain of stages, a part of which is in regions. The items are from 0 on."""

    def __init__(self, seed: int, folder: str, *, processes: bool) -> None:
        rng = self.rng = random.Random(seed)  # noqa: S311 - no secret.
        self.count = rng.choice([1, 3, 17, 40, 80])
        self.epochs = rng.choice([1, 1, 1, 2, 3])
        self.steps = [rng.choice(_steps(rng)) for _ in range(rng.randrange(1, 6))]
        self.limit: int | None = None
        self.killers: list[int] = []
        self.on_death = "fail"
        self.kinds = [
            rng.choice([ThreadPoolExecutorConfig, *[ProcessPoolExecutorConfig] * processes]) for _ in range(3)
        ]
        self._cut()
        if rng.random() < 0.4:
            self._add_failing()
        elif processes and rng.random() < 0.5:
            self._add_deadly(folder)
        self.workers = [rng.choice([1, 2, 2, 3]) for _ in range(3)]
        self.sizes = [rng.choice([None, 1, 2, 7]) for _ in range(6)]
        self.concurrencies = [rng.choice([1, 1, 2, 4]) for _ in self.steps]
        self.threads = rng.choice([1, 2, 4])
        self.sink = rng.choice([1, 3, 50])
        self.hooked = rng.random() < 0.15
        self.told: list[Any] = []
        self.ends = rng.choice(["read", "read", "read", "break", "resume"])
        if self.ends == "resume" and not self._may_resume():
            self.ends = "read"

    def _may_resume(self) -> bool:
        """Return whether what comes after a resume is exact."""
        return not (self._is_gathering(self.steps) or self.killers or self.limit is not None or self.epochs > 1)

    def _cut(self) -> None:
        """Choose where regions begin and end: each stage has the number of its region, or None."""
        self.places: list[int | None] = []
        number: int | None = self.rng.choice([None, 0])
        for _ in self.steps:
            self.places.append(number)
            if self.rng.random() < 0.4:
                last = max((it for it in self.places if it is not None), default=-1)
                number = self.rng.choice([None, last + 1 if last < 2 else None])
        if all(place is None for place in self.places):
            self.places[-1] = 0

    def _add_failing(self) -> None:
        index = self.rng.randrange(len(self.steps) + 1)
        times, retries = self.rng.randrange(3), self.rng.randrange(3)
        always = self.rng.choice([3, 9])

        def fails(x: int) -> bool:
            return x % 7 == always or (x % 3 == 0 and times > retries)

        options: dict[str, Any] = {"retries": retries, "retry_delay": 0.001, "on_failure": self._tell}
        if self.rng.random() < 0.5:
            self.limit = options["max_failures"] = self.rng.choice([0, 2, 1000])
        # Each item must be seen once, or the second of the same has had its failures.
        step = Step("pipe", Flaky(times, always), lambda x: [] if fails(x) else [x], options, fails)
        if not self._are_unique(self.steps[:index]) or self.epochs > 1:
            return
        self.steps.insert(index, step)
        self.places.insert(index, self.places[min(index, len(self.places) - 1)])

    def _tell(self, failed: Any) -> None:
        self.told.append(failed)

    def _are_unique(self, steps: list[Step]) -> bool:
        return max(Counter(_make(steps, range(self.count))).values(), default=0) == 1

    def _add_deadly(self, folder: str) -> None:
        """Have a region's processes die of some of the pipeline's own items."""
        index = next(index for index, place in enumerate(self.places) if place is not None)
        place = self.places[index]
        assert place is not None
        inside = [step for step, at in zip(self.steps, self.places, strict=True) if at == place]
        if self._is_gathering(inside) or not self._are_unique(self.steps[:index]) or self.epochs > 1:
            return
        made = _make(self.steps[:index], range(self.count))
        at = self.rng.sample(made, min(len(made), self.rng.choice([1, 1, 2, 3])))
        once = self.rng.random() < 0.5
        self.on_death = self.rng.choice(["rerun", "rerun", "fail"])
        if not once or self.on_death == "fail":
            self.killers = at
        self.kinds[place] = ProcessPoolExecutorConfig
        deadly = Deadly(at, self.rng.choice(["exit", "kill"]), folder if once else None)
        killers = frozenset(self.killers)
        self.steps.insert(index, Step("pipe", deadly, lambda x: [] if x in killers else [x]))
        self.places.insert(index, place)

    def _is_gathering(self, steps: list[Step]) -> bool:
        return any(step.makes is None for step in steps)

    # ---- what is expected ----

    def expected(self) -> list[int]:
        return _make(self.steps, range(self.count))

    def failures(self) -> int:
        """Return how many items fail."""
        failed = 0
        items = list(range(self.count))
        for step in self.steps:
            if step.fails is not None:
                failed += sum(map(step.fails, items))
            items = _make([step], items)
        if self.killers and self.on_death == "rerun":
            failed += len(self.killers)
        return failed

    def must_fail(self) -> bool | None:
        """Return whether the pipeline fails; None if that depends on whether items that came to nothing had failed."""
        failed = self.failures()
        if self.killers and self.on_death == "fail":
            return True
        if self.limit is not None and failed > self.limit:
            return True
        return None if failed and not self.expected() else False

    def is_ordered(self) -> bool:
        return all(
            step.makes is not None and step.name == "pipe" and step.options.get("output_order") == "input"
            for step in self.steps
        )

    # ---- running it ----

    def build(self) -> Pipeline[Any]:
        source: dict[str, Any] = {"continuous": True} if self.epochs > 1 else {}
        builder: Any = PipelineBuilder[Any, Any]().add_source(range(self.count), **source)
        sizes = itertools.cycle(self.sizes)
        before: int | None = None
        # Stages may have been added since these were drawn.
        concurrencies = itertools.chain(self.concurrencies, itertools.repeat(1))
        for step, place, concurrency in zip(self.steps, self.places, concurrencies, strict=False):
            if place != before:
                builder = builder.to(self._target(place), **_size(next(sizes)))
                before = place
            builder = self._add(builder, step, concurrency)
        if before is not None:
            builder = builder.to(MAIN_PROCESS, **_size(next(sizes)))
        options: dict[str, Any] = {"task_hook_factory": hooks} if self.hooked else {}
        pipeline: Pipeline[Any] = builder.add_sink(self.sink).build(num_threads=self.threads, **options)
        return pipeline

    def _target(self, place: int | None) -> Any:
        if place is None:
            return MAIN_PROCESS
        kind = self.kinds[place]
        more = {"on_death": self.on_death} if kind is ProcessPoolExecutorConfig else {}
        return kind(self.workers[place], **more)

    @staticmethod
    def _add(builder: Any, step: Step, concurrency: int) -> Any:
        if step.name == "gather":
            return builder.aggregate(step.op).disaggregate()
        if step.name == "path_variants":
            return builder.path_variants(*step.op)
        # A resumed run begins without what one before has seen, also if both were in threads of this process.
        op = Flaky(step.op.times, step.op.always) if isinstance(step.op, Flaky) else step.op
        return builder.pipe(op, concurrency=concurrency, **step.options)

    def may_be_declared(self) -> bool:
        """Return whether it can be built."""
        try:
            self.build()
        except ValueError as error:
            if "cannot both keep the order and gather" not in str(error):
                raise
            return False
        return True

    def check(self) -> None:
        """Run it, and compare.

        Raises:
            AssertionError: If something differs.
        """
        pipeline = self.build()
        expected, must_fail = self.expected(), self.must_fail()
        out: list[int] = []
        state: dict[str, Any] = {}
        failure: PipelineFailure | None = None
        try:
            with pipeline.auto_stop(timeout=30):
                self._read(pipeline, out, expected)
                if self.ends == "resume":
                    state = pipeline.state_dict()
        except PipelineFailure as error:
            failure = error
        if failure is not None or must_fail:
            assert must_fail is not False, f"it has failed: {getattr(failure, 'exceptions', None)}"
            assert failure is not None or self.ends != "read", "it should have failed"
            assert Counter(out) <= Counter(expected * self.epochs)
        elif self.ends == "resume":
            resumed = self.build()
            resumed.load_state_dict(state)
            with resumed.auto_stop(timeout=30):
                out += resumed.get_iterator(timeout=60)
            self._compare(out, expected)
        elif self.ends == "read" and self.epochs == 1:
            assert pipeline.statistics().in_flight == 0
            failures = self.failures()
            # A pipeline keeps a hundred of them.
            assert len(pipeline.failures()) == min(failures, 100)
            assert len(self.told) == failures - len(self.killers)

    def _read(self, pipeline: Pipeline[Any], out: list[int], expected: list[int]) -> None:
        if self.ends != "read":
            wanted = self.rng.randrange(len(expected) + 1)
            out += itertools.islice(pipeline.get_iterator(timeout=60), wanted)
            assert Counter(out) <= Counter(expected)
            return
        for _ in range(self.epochs):
            epoch: list[int] = []
            for item in pipeline.get_iterator(timeout=60):
                epoch.append(item)
                out.append(item)
            self._compare(epoch, expected)

    def _compare(self, out: list[int], expected: list[int]) -> None:
        if self.is_ordered():
            assert out == expected
        else:
            assert Counter(out) == Counter(expected)

    def __repr__(self) -> str:
        return f"{vars(self)}"


def _size(size: int | None) -> dict[str, int]:
    return {} if size is None else {"buffer_size": size}


def _make(steps: list[Step], items: Any) -> list[int]:
    made = list(items)
    for step in steps:
        if step.makes is not None:
            made = [y for x in made for y in step.makes(x)]
    return made
