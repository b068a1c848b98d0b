"""What may come out of a program whose processes die, as the documentation has it.

It is judged by "Regions" of docs/execution_model.md, and by docs/failures.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.pipeline.regions.random_deaths import Key, Program

    from spdl.pipeline import PipelineFailure

__all__ = ["Outcome", "judge"]

# A pipeline keeps so many failures.
_KEPT = 100


@dataclass
class Outcome:
    """What came out of a program."""

    epochs: list[list[Key]] = field(default_factory=list)
    complete: bool = False  # It was read to its end.
    killed: int = 0  # From outside.
    failures: list[Any] = field(default_factory=list)
    failure: PipelineFailure | None = None


def judge(program: Program, outcome: Outcome) -> None:
    """Compare what came out with what may come out.

    Raises:
        AssertionError: If something differs.
    """
    for failed in outcome.failures:
        _judge_failed(program, outcome, failed)
    wanted = {key: position for position in range(program.count) for key in program.results(position)}
    given_up = _given_up(program, outcome.failures)
    for number, keys in enumerate(outcome.epochs):
        twice = [key for key, times in Counter(keys).items() if times > 1]
        assert not twice, f"epoch {number}: twice: {twice}"
        assert set(keys) <= set(wanted), f"epoch {number}: nobody asked for {set(keys) - set(wanted)}"
        assert not _keeps_order(program) or keys == sorted(keys), f"epoch {number}: not in order: {keys}"
        if outcome.complete and len(outcome.failures) < _KEPT:
            lost = {wanted[key] for key in set(wanted) - set(keys)} - given_up[number]
            assert not lost, f"epoch {number}: lost {lost}"
    if outcome.failure is not None:
        _judge_failure(program, outcome, outcome.failure)


def _given_up(program: Program, failures: list[Any]) -> dict[int, set[int]]:
    """Return the positions that were given up, by epoch."""
    given_up: dict[int, set[int]] = defaultdict(set)
    for failed in failures:
        for position in failed.positions:
            given_up[position // program.count].add(position % program.count)
    return given_up


def _judge_failed(program: Program, outcome: Outcome, failed: Any) -> None:
    """Check that an item was given up where something happens to it, and for that reason."""
    in_region = failed.stage.startswith("region")
    if not in_region:
        assert "Planned" in failed.error, f"for another reason: {failed}"
    stage = "region" if in_region else failed.stage
    at = [position % program.count for position in failed.positions]
    # Innocent items go with a killer's batch, and two processes that are killed may have had an item of one death each.
    gathers = any(op.kind == "aggregate" for op in program.ops)
    excused = in_region and (outcome.killed > 1 or (gathers and (outcome.killed or program.deadly)))
    # What died twice has one more death only with others.
    alone = program.deadly == 1 and not outcome.killed and not gathers
    blamed = [position for position in at if stage in _blamed(program, position, least=3 if alone else 1)]
    assert blamed or excused, f"innocent: {failed}"


def _blamed(program: Program, position: int, least: int) -> set[str]:
    """Return the names of the stages that may give an item up; "region" for crossing and for `least` deaths."""
    names = {op.name for op in program.ops if op.does(position).what == "raise"}
    actions = [op.does(position) for op in program.ops]
    deaths = sum(action.times for action in actions if action.what == "kill")
    if position in program.fuses or any(action.what == "fuse" for action in actions) or deaths >= least:
        names.add("region")
    return names


def _keeps_order(program: Program) -> bool:
    """Return whether all stages keep the order, and each region has one that says so."""
    piped = {op.region for op in program.ops if op.kind not in {"aggregate", "disaggregate"}}
    return program.keep_order and piped >= set(range(1, len(program.workers) + 1))


def _judge_failure(program: Program, outcome: Outcome, failure: PipelineFailure) -> None:
    """Check that the pipeline had a reason to fail."""
    text = repr(failure.exceptions)
    if "Nothing came out" in text and not any(outcome.epochs[-1:]):
        return
    gathers_inside = any(op.kind == "aggregate" and op.region for op in program.ops)
    generates = any(op.kind == "generator" for op in program.ops)
    assert program.deadly or outcome.killed, f"failed: {text}"
    # With few deaths, and no items made of others that cannot be made again.
    assert program.on_death == "fail" or gathers_inside or generates or outcome.killed > 2, f"failed: {text}"
