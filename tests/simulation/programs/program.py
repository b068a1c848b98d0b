"""The description of a whole program: sources, stages, consumer and what others do to the pipeline meanwhile.

These are frozen records of plain values, which survive the way to JSON and back, so that a program that fails can be
printed, replayed and shrunk.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

SourceKind: TypeAlias = Literal[
    "list", "generator", "iterator", "async_generator", "async_iterator", "pipeline", "once"
]
Form: TypeAlias = Literal["sync", "coroutine", "async", "generator", "async_generator", "mixed", "mixed_async"]
Queue: TypeAlias = Literal["", "pass", "raise", "lose", "double", "keep", "wrap", "hoard", "overtake"]
Hooks: TypeAlias = Literal["", "count", "raise", "late", "cancel", "timeout"]
Merging: TypeAlias = Literal["", "own", "early"]
Pool: TypeAlias = Literal["", "thread", "process", "ranked"]
Reading: TypeAlias = Literal[
    "all", "break", "readers", "late", "get_item", "interrupt", "interrupt_readers", "forget", "exit", "fork"
]
Deed: TypeAlias = Literal[
    "stop",
    "stop_in_op",
    "stop_in_on_failure",
    "stop_in_finalizer",
    "statistics",
    "failures",
    "concurrency",
    "threads",
    "capacity",
    "shut_pool",
]


@dataclass(frozen=True)
class Op:
    """What the op of a stage does with an item.

    Attributes:
        form: How it is written. Mixed ones return a generator for some items, and a value for the others.
        seed: Decides, together with the item's identity, what happens to an item.
        fatal: The percentage of items on which it raises a `BaseException`.
        fail: That on which it raises every time.
        flaky: That on which it raises the first ``flaky_times`` times.
        flaky_times: See ``flaky``.
        midway: That on which a generator raises after its results.
        drop: That which it drops, by None or, if it is a generator, by no result.
        fan: How many results a generator has at most.
        sleep: The percentage of items on which it sleeps.
        sleep_seconds: How long.
        slow: The percentage of items on which it takes much longer than the stage's timeout.
        edge: That on which it takes exactly as long as the timeout, so that either may come first.
        fail_epoch: The epoch of which it fails all items; -1 for none.
        by_batch: Whether it decides on batches as a whole. If not, it treats all batches alike, and drops elements.
        uneven: Whether it sleeps longer on some items than on others.
    """

    form: Form = "sync"
    seed: int = 0
    fatal: int = 0
    fail: int = 0
    flaky: int = 0
    flaky_times: int = 1
    midway: int = 0
    drop: int = 0
    fan: int = 1
    sleep: int = 0
    sleep_seconds: float = 0.001
    slow: int = 0
    edge: int = 0
    fail_epoch: int = -1
    by_batch: bool = False
    uneven: bool = False

    @property
    def begins_in_thread(self) -> bool:
        """Whether it works in a thread before it returns a coroutine."""
        return self.form == "coroutine" and self.seed % 4 == 0

    @property
    def is_generator(self) -> bool:
        """Whether it has several results for some items."""
        return self.form in ("generator", "async_generator", "mixed", "mixed_async")

    @property
    def runs_on_loop(self) -> bool:
        """Whether the event loop runs it, or what it returns."""
        return self.form in ("coroutine", "async", "async_generator", "mixed_async")

    @property
    def pauses(self) -> bool:
        """Whether its generators sleep before each result, and not only before the first one."""
        return self.is_generator and self.seed % 2 == 0

    @property
    def keeps_generators(self) -> bool:
        """Whether it has its generators at hand until the end, so that nobody else closes them by letting go."""
        return self.form in ("generator", "mixed") and self.seed % 4 < 2

    @property
    def answers_cancellation(self) -> bool:
        """Whether it answers a cancellation with its result, on items that take too long."""
        return self.runs_on_loop and self.seed % 2 == 1

    @property
    def is_mixed(self) -> bool:
        return self.form.startswith("mixed")


@dataclass(frozen=True)
class Pipe:
    """A stage with an op. ``max_failures`` is written as in ``"3"`` or ``"1/10"``; an empty one is not given."""

    name: str
    op: Op = Op()
    pool: Pool = ""
    concurrency: int = 1
    ordered: bool = False
    retries: int = 0
    retry_delay: float = 0.0
    max_failures: str = ""
    on_failure: Literal["", "count", "raise", "slow"] = ""
    timeout: float = 0.0
    drop_overdue: bool = False


@dataclass(frozen=True)
class Aggregate:
    """Lists of ``n``; or, with a ``seed``, an aggregator of the user's that ends a batch at some items.

    Attributes:
        name: A word for messages; stages of this kind cannot be named.
        n: The size of a batch.
        drop_last: Whether the last, shorter one is dropped.
        seed: If it is above 0, an item ends a batch at random, ``n`` to one.
        raise_at: The item at which the user's aggregator raises, counted from 0 over all epochs; -1 for none.
    """

    name: str
    n: int = 2
    drop_last: bool = False
    seed: int = 0
    raise_at: int = -1


@dataclass(frozen=True)
class Disaggregate:
    """A stage that passes on the elements of lists."""

    name: str


@dataclass(frozen=True)
class Fork:
    """A stage that sends items, or the elements of batches, along several paths.

    Attributes:
        name: Its name.
        paths: The stages of each path.
        batched: Whether it routes the elements of batches.
        asynchronous: Whether the router is a coroutine function.
        seed: Decides on the paths.
        raise_at: The call of the router that raises, counted from 0; -1 for none.
    """

    name: str
    paths: "tuple[tuple[Stage, ...], ...]"
    batched: bool = False
    asynchronous: bool = False
    seed: int = 0
    raise_at: int = -1


Stage: TypeAlias = Pipe | Aggregate | Disaggregate | Fork


@dataclass(frozen=True)
class Source:
    """A source, and the stages between it and the merge if there are several.

    Attributes:
        kind: How it is written. ``once`` is an iterator that does not begin anew.
        size: How many items it has in an epoch.
        dedicated: Whether it has a thread of its own.
        raise_at: The position at which it raises instead of yielding; -1 for none.
        raise_epoch: The pass in which it does.
        raise_in_close: Whether its ``close()`` raises.
        sleep: The percentage of items before which it sleeps.
        stages: The stages of its branch.
        sleep_seconds: How long it sleeps.
        blocks_at: The position before which it sleeps for long; -1 for none.
        unsendable: The percentage of its items that cannot be sent to another process.
    """

    kind: SourceKind = "list"
    size: int = 0
    dedicated: bool = False
    raise_at: int = -1
    raise_in_close: bool = False
    sleep: int = 0
    stages: tuple[Stage, ...] = ()
    sleep_seconds: float = 0.002
    blocks_at: int = -1
    unsendable: int = 0
    raise_epoch: int = 0


@dataclass(frozen=True)
class Meddling:
    """Something that is done to the pipeline while it runs.

    Attributes:
        deed: What.
        after: ``stop_in_op`` and ``stop_in_on_failure``: the number of the call. ``stop_in_finalizer``: a number of
            steps. The others: milliseconds.
        stage: The stage it is about.
        value: The new number.
    """

    deed: Deed
    after: int = 0
    stage: str = ""
    value: int = 1


@dataclass(frozen=True)
class Consumer:
    """How the pipeline is read.

    Attributes:
        reading: ``all``: to the end. ``break``: ``count`` items. ``readers``: ``count`` threads to the end. ``late``:
            to the end, after a while. ``get_item``: to the end, with short timeouts. ``interrupt``: a
            KeyboardInterrupt comes after ``count`` items. ``interrupt_readers``: it comes to one of two threads.
            ``forget``, ``exit``, ``fork``: after ``count`` items nobody refers to the pipeline any more, the
            interpreter exits, or the process forks.
        count: See ``reading``.
        epochs: How many epochs are read of a continuous source.
        pause: Milliseconds for which it works on some of the items.
        each: On which of them: one of so many.
    """

    reading: Reading = "all"
    count: int = 0
    epochs: int = 1
    pause: int = 0
    each: int = 3


@dataclass(frozen=True)
class Program:
    """A whole program.

    Attributes:
        sources: Its sources.
        stages: Its stages behind them, or behind their merge.
        continuous: Whether the sources begin anew when they have ended.
        buffer_size: How many items may wait for the consumer.
        num_threads: How many synchronous ops may run at once.
        max_failures: The limit of all stages that have none.
        queue: What the queues between its stages do to items.
        hooks: What the hooks around its tasks do.
        consumer: How it is read.
        meddling: What is done to it meanwhile.
        merge: Whether the merge of its sources is the engine's or the program's own, which may return early.
        merge_count: The number of items after which it does.
        twice: Whether another pipeline is made of it when it has been read, with the same aggregators.
        resumed: Whether it is cut at random steps, and gone on with in new pipelines.
        ranked_workers: The threads of the pool that its stages share.
        busy_pools: Whether the other pools do other work as well, and are shut down when all items were read.
        pools_fail_at: The call that pools of threads cannot make; -1 for none.
        listens: Whether it listens to what is logged of queues.
        slow_lock: Whether the pipeline's threads have to wait for its lock from time to time.
        series: Whether it is short, and run again and again with something that happens at a place.
    """

    sources: tuple[Source, ...]
    stages: tuple[Stage, ...] = ()
    continuous: bool = False
    buffer_size: int = 3
    num_threads: int = 2
    max_failures: str = ""
    queue: Queue = ""
    hooks: Hooks = ""
    consumer: Consumer = Consumer()
    meddling: tuple[Meddling, ...] = ()
    merge: Merging = ""
    merge_count: int = 0
    twice: bool = False
    resumed: bool = False
    ranked_workers: int = 1
    busy_pools: bool = False
    pools_fail_at: int = -1
    listens: bool = False
    slow_lock: bool = False
    series: bool = False

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(_to_plain(self))

    @staticmethod
    def from_json(text: str) -> "Program":
        """Return the program that `to_json` wrote."""
        program = _from_plain(json.loads(text))
        if not isinstance(program, Program):
            raise TypeError(f"This is no program: {text[:100]!r}")
        return program


_RECORDS = {
    kind.__name__: kind for kind in (Op, Pipe, Aggregate, Disaggregate, Fork, Source, Meddling, Consumer, Program)
}


def _to_plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {
            field.name: _to_plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != field.default
        }
        return {"": type(value).__name__, **fields}
    return [_to_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict):
        fields = dict(value)
        kind = _RECORDS[fields.pop("")]
        return kind(**{name: _from_plain(field) for name, field in fields.items()})
    return tuple(map(_from_plain, value)) if isinstance(value, list) else value


def each_stage(stages: tuple[Stage, ...]) -> Iterator[Stage]:
    """Yield the stages and those of their paths."""
    for stage in stages:
        yield stage
        if isinstance(stage, Fork):
            for path in stage.paths:
                yield from each_stage(path)


def change_pipes(stages: tuple[Stage, ...], change: "Callable[[Pipe], Pipe]") -> tuple[Stage, ...]:
    """Return the stages, each of those with an op changed, in the paths of forks as well."""
    changed: list[Stage] = []
    for stage in stages:
        if isinstance(stage, Pipe):
            changed.append(change(stage))
        elif isinstance(stage, Fork):
            paths = tuple(change_pipes(path, change) for path in stage.paths)
            changed.append(dataclasses.replace(stage, paths=paths))
        else:
            changed.append(stage)
    return tuple(changed)


def all_stages(program: Program) -> Iterator[Stage]:
    """Yield all stages of a program."""
    for source in program.sources:
        yield from each_stage(source.stages)
    yield from each_stage(program.stages)


def all_pipes(program: Program) -> list[Pipe]:
    """Return all stages of a program that have an op."""
    return [stage for stage in all_stages(program) if isinstance(stage, Pipe)]
