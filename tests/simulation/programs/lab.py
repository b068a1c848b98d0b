"""What is seen while a program runs: each call of an op, source, router and hook."""

import contextlib
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

from spdl.pipeline import FailedItem
from tests.simulation.programs.inside import world

from .host import Host
from .item import Item
from .program import Program, all_pipes
from .rest import Rest


class ProvokedError(Exception):
    """What the parts of a program raise on purpose."""


class Fatal(BaseException):
    """What they raise if it shall end the pipeline."""


class Exclusive:
    """A call that must not overlap with another one of its kind."""

    def __init__(self, lab: "Lab", what: str) -> None:
        self.lab = lab
        self.what = what
        self.inside = 0
        self.calls = 0

    @contextlib.contextmanager
    def call(self) -> Generator[int, None, None]:
        with self.lab.lock:
            self.inside += 1
            number = self.calls
            self.calls += 1
            if self.inside > 1:
                self.lab.report(f"{self.what} is called by two threads at once")
        self.lab.started(self.what)
        self.lab.host.step()
        try:
            yield number
        finally:
            with self.lab.lock:
                self.inside -= 1


class SourceRecord:
    """What was done with one source."""

    def __init__(self, lab: "Lab", number: int) -> None:
        self.lab = lab
        self.number = number
        self.pull = Exclusive(lab, f"source {number}")
        self.iterations = 0
        self.pulled = 0
        self.exhausted = 0
        self.opened = 0
        self.closed = 0
        self.raised = False

    def count(self, item: Any) -> Any:
        """Note that an item is taken out of a list."""
        self.pulled += 1
        return item

    def iterate(self) -> int:
        """Note that it is iterated, and return the number of the epoch."""
        self.lab.started(f"source {self.number}'s iter()")
        self.iterations += 1
        return self.iterations - 1


class Lab:
    """The record of one run.

    Attributes:
        host: The world.
        program: The program.
        lock: Guards the record.
        findings: What went wrong.
        stopped: Whether `stop` has returned.
        on_call: Called with the stage's name and the number of the call when an op begins.
    """

    def __init__(self, program: Program, host: Host) -> None:
        self.program = program
        self.host = host
        self.lock = world.Lock()
        self.findings: list[str] = []
        self.sources = [SourceRecord(self, number) for number in range(len(program.sources))]
        self.stopped = False
        self.calls: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.under_way: dict[str, set[int]] = {}
        self.spread: Counter[str] = Counter()
        self.sync_running = 0
        self.most_sync = 0
        self.attempts: Counter[object] = Counter()
        # Attempts that a hook has failed, so that the op was not called.
        self.uncalled: Counter[object] = Counter()
        # The tasks that ops have started, and how many of them have not ended.
        self.beats: set[object] = set()
        self.background = 0
        # Ops that were cancelled without a reason that is known here.
        self.cancelled: list[str] = []
        # Whether it is known who lets go of an item last: others may have it where it was handed on unseen.
        self.sees_drops = not (
            program.queue
            or any(pipe.pool == "process" for pipe in all_pipes(program))
            or any(source.dedicated or source.kind == "pipeline" for source in program.sources)
        )
        self.given_up: list[FailedItem] = []
        self.hook_balance: Counter[str] = Counter()
        self.hook_tasks: Counter[str] = Counter()
        self.on_call: Callable[[str, int], object] = lambda _stage, _number: None
        self.on_give_up: Callable[[int], object] = lambda _number: None
        # Submits other work to the pool of a stage, by the stage's name, where pools do other work as well.
        self.other_work: dict[str, Callable[[], None]] = {}
        # Generators that ops have made and keep, though only the pipeline takes their results.
        self.made: list[Generator[Any, None, None]] = []
        self.rest = Rest(program, self.sources, self.report, host.now)
        if not host.simulated:
            self.rest.take_turns()

    def report(self, finding: str) -> None:
        """Note something that must not happen. The lock may be held."""
        if finding not in self.findings:
            self.findings.append(finding)

    def started(self, what: str) -> None:
        """Note that something of the user's is called."""
        if self.stopped:
            self.report(f"{what} is called after stop() has returned")
        if self.host.simulated:
            self.rest.begins(what)
            if self.host.is_late() and all(source.kind != "pipeline" for source in self.program.sources):
                self.report(f"{what} is called by a thread that has had the lock since stop() returned")

    def enter(self, stage: str, *, sync: bool) -> int:
        """Note that an op begins an item. Return the number of the call."""
        self.started(stage)
        with self.lock:
            self.calls[stage] += 1
            number = self.calls[stage]
            self.running[stage] += 1
            self.most[stage] = max(self.most[stage], self.running[stage])
            under_way = self.under_way.setdefault(stage, set())
            under_way.add(number)
            self.spread[stage] = max(self.spread[stage], number - min(under_way) + 1)
        if sync:
            self.enter_sync()
        self.on_call(stage, number)
        return number

    def leave(self, stage: str, number: int, *, sync: bool) -> None:
        """Note that a call is done with its item."""
        with self.lock:
            self.running[stage] -= 1
            self.under_way[stage].discard(number)
        if sync:
            self.leave_sync()

    def enter_sync(self) -> None:
        """Note that a worker begins to run an op."""
        with self.lock:
            self.sync_running += 1
            self.most_sync = max(self.most_sync, self.sync_running)
            self.rest.sync_running = self.sync_running

    def leave_sync(self) -> None:
        """Note that it ends."""
        with self.lock:
            self.sync_running -= 1
            self.rest.sync_running = self.sync_running

    def attempt(self, key: object) -> int:
        """Return how many times this was tried before."""
        with self.lock:
            self.attempts[key] += 1
            return self.attempts[key] - 1

    def fail_before_op(self, name: str, value: Any) -> None:
        """Note an attempt that fails before the op is called."""
        if isinstance(value, Item | list):
            with self.lock:
                self.uncalled[attempts_of(name, value)] += 1
            self.rest.forget(name, value)

    def forget_attempts(self, key: object) -> None:
        """Note that this is not tried again, and another one may have its identity."""
        with self.lock:
            del self.attempts[key]

    def give_up(self, failed: FailedItem) -> None:
        """Note a call of on_failure."""
        with self.lock:
            self.given_up.append(failed)
            number = len(self.given_up)
        self.on_give_up(number)

    def sleep(self, seconds: float) -> None:
        """Let a synchronous op sleep."""
        if seconds:
            self.host.sleep(seconds)
        else:
            self.host.step()


def attempts_of(name: str, value: Any) -> tuple[object, ...]:
    """Return what the attempts of a stage at an item, or at a batch, are counted by."""
    elements: list[Item] = value if isinstance(value, list) else [value]
    # Batches without elements are told apart by nothing else.
    return name, tuple(element.epoch for element in elements), keys_of(value) or id(value)


def keys_of(value: Any) -> tuple[Any, ...]:
    """Return the identities of an item, or of the elements of a batch."""
    return tuple(element.key for element in value) if isinstance(value, list) else (value.key,)
