"""The ops of the programs."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from types import GeneratorType
from typing import Any

from tests.simulation.programs.inside import world

from .behaviour import Outcome, decide, keeps, step_of
from .lab import Fatal, Lab, ProvokedError, attempts_of, keys_of
from .program import Op, Pipe

# One call of so many in a pool that does other work gives it some.
_ONE_OF = 2


def make(op: Op, name: str, value: Any, number: int) -> Any:
    """Return the result of an op of this number."""
    step = step_of(name, number, op)
    if isinstance(value, list):
        return [element.child(step) for element in value if keeps(op, element.key)]
    return value.child(step)


def outcome_of(op: Op, value: Any) -> Outcome:
    """Return what an op will do."""
    return decide(op, keys_of(value), batch=isinstance(value, list))


def finish(outcome: Outcome, name: str) -> None:
    """Raise what an op raises at its end."""
    if outcome.end == "fatal":
        raise Fatal(name)
    if outcome.end == "error":
        raise ProvokedError(name)


class InProcess:
    """A plain op that can go to another process."""

    def __init__(self, op: Op, name: str) -> None:
        self.op = op
        self.name = name

    def __call__(self, value: Any) -> Any:
        outcome = outcome_of(self.op, value)
        if outcome.seconds:
            # Simulated processes are fibers of this one, real ones have clocks of their own.
            getattr(world, "sleep", time.sleep)(outcome.seconds)
        if outcome.failing_attempts:
            finish(outcome, self.name)
            raise ProvokedError(self.name)
        finish(outcome, self.name)
        return make(self.op, self.name, value, 0) if outcome.results else None


class GeneratorInProcess(InProcess):
    """A generator function that can go to another process."""

    def __call__(self, value: Any) -> Generator[Any, None, None]:
        outcome = outcome_of(self.op, value)
        if outcome.failing_attempts:
            finish(outcome, self.name)
            raise ProvokedError(self.name)
        for number in range(outcome.results):
            yield make(self.op, self.name, value, number)
        finish(outcome, self.name)


class Instrumented:
    """The forms of an op that stays in this process."""

    def __init__(self, lab: Lab, pipe: Pipe) -> None:
        self.lab = lab
        self.pipe = pipe
        self.op = pipe.op
        self.name = pipe.name
        self.in_worker = not pipe.pool
        # Each step of a generator has a deadline of its own, and it is known which exceed theirs.
        self.pauses = pipe.op.pauses and not pipe.timeout

    def _begin(self, value: Any) -> tuple[Outcome, float]:
        outcome = outcome_of(self.op, value)
        seconds = outcome.seconds
        if outcome.slow:
            # On a busy machine, the thread that sees to timeouts may be late itself.
            seconds = max(seconds, 4 * self.pipe.timeout if self.lab.host.simulated else self.pipe.timeout + 0.5)
            if self.pipe.drop_overdue:
                self.lab.rest.doom(self.name, value)
        elif outcome.edge:
            seconds = max(seconds, self.pipe.timeout)
        return outcome, seconds

    def _fail_early(self, outcome: Outcome, value: Any) -> None:
        elements = value if isinstance(value, list) else [value]
        key = attempts_of(self.name, value)
        attempt = self.lab.attempt(key)
        tried = attempt + self.lab.uncalled[key]
        failing = outcome.failing_attempts
        if elements and elements[0].epoch == self.op.fail_epoch:
            failing = 1 << 30
        again = attempt < failing and tried < self.pipe.retries and outcome.end != "fatal"
        again = again and not outcome.generates
        if not elements and not again:
            self.lab.forget_attempts(key)
        if attempt < failing:
            if again:
                self.lab.rest.try_again(self.name, value, self.pipe.retry_delay * 2**tried)
            self._finish(outcome)
            # Only the engine has it now, and the exception that holds it.
            for element in elements:
                element.watched = self.lab.sees_drops and not self.pipe.pool
            raise ProvokedError(self.name)

    def _finish(self, outcome: Outcome) -> None:
        if outcome.end == "fatal":
            self.lab.rest.fail()
        finish(outcome, self.name)

    def _result(self, outcome: Outcome, value: Any) -> Any:
        self._finish(outcome)
        if not outcome.results:
            return None
        self.lab.rest.give(self.name, value)
        return make(self.op, self.name, value, 0)

    def sync(self, value: Any) -> Any:
        call = self.lab.enter(self.name, sync=self.in_worker)
        self.lab.rest.take(self.name, value)
        if call % _ONE_OF == 0 and self.name in self.lab.other_work:
            self.lab.other_work[self.name]()
        try:
            outcome, seconds = self._begin(value)
            self.lab.sleep(seconds)
            self._fail_early(outcome, value)
            return self._result(outcome, value)
        finally:
            self.lab.rest.leave(self.name, value)
            self.lab.leave(self.name, call, sync=self.in_worker)

    async def asynchronous(self, value: Any) -> Any:
        call = self.lab.enter(self.name, sync=False)
        self.lab.rest.take(self.name, value)
        try:
            if self.op.seed % 5 == 0:
                self.lab.beats.add(asyncio.create_task(self._beat()))
            outcome, seconds = self._begin(value)
            await self._sleep(outcome, seconds)
            self._fail_early(outcome, value)
            return self._result(outcome, value)
        finally:
            self.lab.rest.leave(self.name, value)
            self.lab.leave(self.name, call, sync=False)

    async def _sleep(self, outcome: Outcome, seconds: float) -> None:
        """Let an asynchronous op sleep. Some of those that take too long do not let themselves be cancelled."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            due = self.pipe.drop_overdue and (outcome.slow or outcome.edge)
            if not self.lab.rest.over:
                if due and self.op.answers_cancellation:
                    return
                if not due:
                    self.lab.cancelled.append(self.name)
            raise

    async def _beat(self) -> None:
        """Go on for ever, as a task that nobody awaits."""
        self.lab.background += 1
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
            self.lab.background -= 1
            raise

    def coroutine(self, value: Any) -> Any:
        # That it is asynchronous shows only when it is called; until then it keeps a thread.
        if self.op.begins_in_thread:
            self.lab.sleep(self.op.sleep_seconds)
            self.lab.on_call(self.name, self.lab.calls[self.name] + 1)
        return self.asynchronous(value)

    def mixed(self, value: Any) -> Any:
        return self.generator(value) if outcome_of(self.op, value).generates else self.sync(value)

    async def mixed_async(self, value: Any) -> Any:
        if not outcome_of(self.op, value).generates:
            return await self.asynchronous(value)
        return self.async_generator(value)

    def generator(self, value: Any) -> Generator[Any, None, None]:
        call = self.lab.enter(self.name, sync=self.in_worker)
        self.lab.rest.take(self.name, value)
        inside = True
        try:
            outcome, seconds = self._begin(value)
            self.lab.sleep(seconds)
            self._fail_early(outcome, value)
            for number in range(outcome.results):
                result = make(self.op, self.name, value, number)
                if self.in_worker:
                    self.lab.leave_sync()
                inside = False
                self.lab.rest.give(self.name, value, more=True)
                yield result
                del result
                self.lab.rest.go_on(self.name, value)
                self.lab.started(self.name)
                inside = True
                if self.in_worker:
                    self.lab.enter_sync()
                self.lab.sleep(seconds if self.pauses else 0.0)
            self._finish(outcome)
        finally:
            self.lab.rest.leave(self.name, value)
            self.lab.leave(self.name, call, sync=self.in_worker and inside)

    async def async_generator(self, value: Any) -> AsyncGenerator[Any, None]:
        call = self.lab.enter(self.name, sync=False)
        self.lab.rest.take(self.name, value)
        try:
            outcome, seconds = self._begin(value)
            await self._sleep(outcome, seconds)
            self._fail_early(outcome, value)
            for number in range(outcome.results):
                self.lab.rest.give(self.name, value, more=True)
                yield make(self.op, self.name, value, number)
                self.lab.rest.go_on(self.name, value)
                self.lab.started(self.name)
                await asyncio.sleep(seconds if self.pauses else 0)
            self._finish(outcome)
        finally:
            if self.op.seed % 3 == 0 and sys.exc_info()[0] is GeneratorExit:
                # It has something to save, and is waited for.
                await asyncio.sleep(0.001)
            self.lab.rest.leave(self.name, value)
            self.lab.leave(self.name, call, sync=False)


def make_op(lab: Lab, pipe: Pipe) -> Callable[[Any], Any]:
    """Return the op of a stage."""
    if pipe.pool == "process":
        kind = GeneratorInProcess if pipe.op.is_generator else InProcess
        return kind(pipe.op, pipe.name)
    instrumented = Instrumented(lab, pipe)
    forms: dict[str, Callable[[Any], Any]] = {
        "sync": instrumented.sync,
        "coroutine": instrumented.coroutine,
        "async": instrumented.asynchronous,
        "generator": instrumented.generator,
        "async_generator": instrumented.async_generator,
        "mixed": instrumented.mixed,
        "mixed_async": instrumented.mixed_async,
    }
    return _keeping(instrumented.lab, forms[pipe.op.form]) if pipe.op.keeps_generators else forms[pipe.op.form]


def _keeping(lab: Lab, op: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an op that keeps the generators that it makes."""

    def make_and_keep(value: Any) -> Any:
        made = op(value)
        if isinstance(made, GeneratorType):
            lab.made.append(made)
        return made

    return make_and_keep
