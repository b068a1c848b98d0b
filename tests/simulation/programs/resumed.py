"""Cuts programs at a random step, goes on in new pipelines, and checks that each item came once."""

import contextlib
import json
import traceback
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from spdl.pipeline import PipelineFailure

from .build import Built
from .check import Value, compare_epoch
from .expected import Expected
from .host import Host
from .lab import Lab
from .model import expect
from .program import Aggregate, Consumer, Program, Stage, all_pipes, all_stages
from .run import checked, value_of

_MOST_CUTS = 3


def run_resumed(program: Program, host: Host, random: Random) -> list[str]:
    """Read a program in several pipelines, each of which goes on where the one before was left.

    Returns:
        What was wrong; nothing if the list is empty, or if the program does not say what must come.
    """
    epochs = random.randint(1, 2) if program.continuous else 1
    program = replace(program, meddling=(), consumer=Consumer(epochs=epochs))
    expected = expect(program, exact_time=host.exact_time)
    if not _is_certain(program, expected):
        return []
    return checked(lambda: _run(program, host, random, expected))


def _is_certain(program: Program, expected: Expected) -> bool:
    flow = expected.flow
    doubts = expected.must_fail or expected.may_fail or expected.uncertain or flow.unknown or flow.missing
    # What ops make of a whole batch depends on what else is in it, which another run may not repeat.
    doubts = doubts or any(pipe.op.by_batch for pipe in all_pipes(program))
    return not (doubts or any(map(_drops_held_back, all_stages(program))))


def _drops_held_back(stage: Stage) -> bool:
    """Return whether an aggregator holds items back and drops the last ones, other ones perhaps: it warns of that."""
    return isinstance(stage, Aggregate) and stage.seed > 0 and stage.drop_last


def _run(program: Program, host: Host, random: Random, expected: Expected) -> list[str]:
    work = _Work(program, host, random)
    stacks = host.watch(work)
    if stacks:
        return [f"hang: {work.doing}\n{stacks}"]
    if work.crash:
        return [work.crash]
    findings = list(work.findings)
    for epoch, values in enumerate(work.epochs[: program.consumer.epochs]):
        findings += [
            f"resumed after the steps {work.cuts}, epoch {epoch}: {text}"
            for text in compare_epoch(values, expected.flow)
        ]
    return findings


@dataclass
class _Work:
    """The work of the thread that reads."""

    program: Program
    host: Host
    random: Random
    doing: str = "building"
    crash: str = ""
    findings: list[str] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    epochs: list[list[Value]] = field(default_factory=lambda: [[]])
    ended: int = 0

    def __call__(self) -> None:
        try:
            state: dict[str, Any] | None = None
            for _ in range(self.random.randint(1, _MOST_CUTS)):
                steps = self.random.choice((0, 1, self.random.randint(0, 12), self.random.randint(0, 40)))
                self.cuts.append(steps)
                state = self._part(state, steps)
            self._part(state, None)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding.
            self.crash = f"{type(error).__name__} in a resumed run: {error}\n{traceback.format_exc()}"

    def _part(self, state: dict[str, Any] | None, steps: int | None) -> dict[str, Any]:
        """Read so many steps in a new pipeline, or all, and return its state."""
        lab = Lab(self.program, self.host)
        built = Built(lab, {})
        pipeline = built.pipeline
        if state is not None:
            pipeline.load_state_dict(state)
        self.doing = f"reading {steps} steps"
        with pipeline.auto_stop():
            self._read(pipeline, steps)
            early = pipeline.state_dict()
            self.doing = "stop"
        # Nothing that happens at a stop may count as received.
        left = json.loads(json.dumps(pipeline.state_dict()))
        if left["epoch"] != early["epoch"]:
            self.findings.append(f"the epoch was {early['epoch']} before the stop and {left['epoch']} after it")
        for inner in built.inner:
            with contextlib.suppress(PipelineFailure):
                inner.stop()
        lab.stopped = True
        built.release()
        self.findings += lab.findings
        return left if self.random.random() < 0.5 else json.loads(json.dumps(early))  # type: ignore[no-any-return]

    def _read(self, pipeline: Any, steps: int | None) -> None:
        items = iter(pipeline)
        taken = 0
        while self.ended < self.program.consumer.epochs and (steps is None or taken < steps):
            taken += 1
            item = next(items, None)
            if item is None:
                self.ended += 1
                self.epochs.append([])
                if self.ended < self.program.consumer.epochs:
                    items = iter(pipeline)
            else:
                self.epochs[-1].append(value_of(item))
                self.host.step()
            del item
