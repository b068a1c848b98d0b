"""The programs survive JSON and shrinking, right pipelines pass all checks, and wrong ones do not."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from spdl.pipeline import defs
from tests.simulation.programs import build, ops, sources
from tests.simulation.programs import run as runner
from tests.simulation.programs.check import Value
from tests.simulation.programs.generate import draw
from tests.simulation.programs.model import expect
from tests.simulation.programs.program import (
    Aggregate,
    Consumer,
    Disaggregate,
    Fork,
    Meddling,
    Op,
    Pipe,
    Program,
    Source,
    all_pipes,
    all_stages,
)
from tests.simulation.programs.real_host import RealHost
from tests.simulation.programs.run import run
from tests.simulation.programs.shrink import shrink


@pytest.fixture
def host() -> Iterator[RealHost]:
    host = RealHost()
    yield host
    host.close()


def test_a_run_leaves_the_log_as_it_was(host: RealHost, caplog: pytest.LogCaptureFixture) -> None:
    failing = replace(PLAIN, stages=FAILING)
    assert run(failing, host) == []
    assert not caplog.records
    logging.getLogger("spdl.pipeline").error("heard")
    assert [record.message for record in caplog.records] == ["heard"]


def test_a_program_survives_json() -> None:
    for seed in range(300):
        program = draw(Random(seed))
        assert Program.from_json(program.to_json()) == program


def test_all_kinds_of_parts_are_drawn() -> None:
    programs = [draw(Random(seed)) for seed in range(1500)]
    stages = [stage for program in programs for stage in all_stages(program)]
    pipes = [pipe for program in programs for pipe in all_pipes(program)]
    assert {type(stage) for stage in stages} == {Pipe, Aggregate, Disaggregate, Fork}
    assert len({source.kind for program in programs for source in program.sources}) == 7
    assert len({pipe.op.form for pipe in pipes}) == 7
    assert {pipe.pool for pipe in pipes} == {"", "thread", "process", "ranked"}
    assert len({program.consumer.reading for program in programs}) == 10
    assert len({program.queue for program in programs}) == 9
    assert len({program.hooks for program in programs}) == 6
    assert {program.merge for program in programs} == {"", "own", "early"}
    assert len({deed.deed for program in programs for deed in program.meddling}) == 10


def test_the_model_is_sure_about_most_programs() -> None:
    expected = [expect(draw(Random(seed)), exact_time=True) for seed in range(500)]
    assert sum(not outcome.uncertain and not outcome.flow.unknown for outcome in expected) > 400


def pipe(number: int, **options: Any) -> Pipe:
    return Pipe(f"p{number}", **options)


PLAIN = Program((Source("iterator", 12),), (pipe(1, concurrency=2), pipe(2, ordered=True)))
GENERATORS = (pipe(1, op=Op("generator", 3, fan=3), concurrency=3), pipe(2, op=Op("async_generator", 4, fan=2)))
BATCHES = (
    Aggregate("a1", 3),
    Fork("f2", ((pipe(3, op=Op(drop=30)),), (pipe(4, op=Op("async", by_batch=True)),)), batched=True),
    Disaggregate("d5"),
)
FAILING = (pipe(1, op=Op("sync", 5, fail=30, flaky=30), retries=1, concurrency=3, on_failure="raise"),)
GOOD = {
    "plain": PLAIN,
    "no item": replace(PLAIN, sources=(Source("generator"),)),
    "merged": replace(PLAIN, sources=(Source("list", 5), Source("async_generator", 4, stages=(pipe(3),)))),
    "of a pipeline": replace(PLAIN, sources=(Source("pipeline", 9),)),
    "generators": replace(PLAIN, stages=GENERATORS),
    "batches": replace(PLAIN, stages=BATCHES, continuous=True, consumer=Consumer(epochs=3)),
    "failures": replace(PLAIN, stages=FAILING),
    "too many failures": replace(PLAIN, stages=FAILING, max_failures="0"),
    "a failing source": replace(PLAIN, sources=(Source("generator", 12, raise_at=7, raise_in_close=True),)),
    "pools": replace(PLAIN, stages=(pipe(1, pool="thread", concurrency=2), pipe(2, pool="process"))),
    "hooks": replace(PLAIN, hooks="count", queue="pass"),
    "an early end": replace(PLAIN, consumer=Consumer("break", 5)),
    "an interrupt": replace(PLAIN, consumer=Consumer("interrupt", 5)),
    "several readers": replace(PLAIN, consumer=Consumer("readers", 3)),
    "get_item": replace(PLAIN, consumer=Consumer("get_item")),
    "meddling": replace(
        PLAIN, meddling=(Meddling("concurrency", 0, "p1", 4), Meddling("threads", 0), Meddling("statistics"))
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_right_pipeline_passes(name: str, host: RealHost) -> None:
    assert run(GOOD[name], host) == []


def lost(value_of: Callable[[Any], Value]) -> Callable[[Any], Value]:
    return lambda item: replace(value_of(item), keys=())


def doubled(value_of: Callable[[Any], Value]) -> Callable[[Any], Value]:
    return lambda item: replace(value_of(item), keys=value_of(item).keys * 2)


def of_another_epoch(value_of: Callable[[Any], Value]) -> Callable[[Any], Value]:
    return lambda item: replace(value_of(item), epochs=frozenset({7}))


@pytest.mark.parametrize(
    ("fault", "finding"), [(lost, "missing: 12"), (doubled, "too much: 12"), (of_another_epoch, "epoch 0 has")]
)
def test_wrong_items_are_found(
    fault: Callable[[Any], Any], finding: str, host: RealHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "value_of", fault(runner.value_of))
    assert any(finding in text for text in run(PLAIN, host))


def test_a_wrong_order_is_found(host: RealHost, monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = replace(PLAIN, stages=(pipe(1),))
    value_of = runner.value_of

    def swapped(item: Any) -> Value:
        (source, position, trail), *_ = value_of(item).keys
        return replace(value_of(item), keys=((source, position ^ 1, trail),))

    monkeypatch.setattr(runner, "value_of", swapped)
    assert any("the order is" in text for text in run(ordered, host))


def test_an_item_that_stays_in_memory_is_found(host: RealHost, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    value_of = runner.value_of

    def keep(item: Any) -> Value:
        kept.append(item)
        return value_of(item)

    monkeypatch.setattr(runner, "value_of", keep)
    assert any("still in memory" in text for text in run(PLAIN, host))


def test_a_source_that_is_not_closed_is_found(host: RealHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources._Maker, "close", lambda _maker: None)
    program = replace(GOOD["an early end"], sources=(Source("iterator", 100),))
    assert any("were not closed" in text for text in run(program, host))


def test_an_item_that_fails_unexpectedly_is_found(host: RealHost, monkeypatch: pytest.MonkeyPatch) -> None:
    make = ops.make

    def fail(op: Op, name: str, value: Any, number: int) -> Any:
        if value.position == 3:
            raise ValueError(name)
        return make(op, name, value, number)

    monkeypatch.setattr(ops, "make", fail)
    findings = "\n".join(run(PLAIN, host))
    for finding in ("missing: 1", "(completed, emitted, failed, dropped, retried) is", "failures() lists"):
        assert finding in findings


def test_too_many_ops_at_once_are_found(host: RealHost, monkeypatch: pytest.MonkeyPatch) -> None:
    program = replace(PLAIN, stages=(pipe(1, op=Op(sleep=100, sleep_seconds=0.01), concurrency=2),), num_threads=4)
    assert run(program, host) == []
    monkeypatch.setattr(
        "tests.simulation.programs.build.Pipe", lambda op, **options: defs.Pipe(op, **{**options, "concurrency": 4})
    )
    assert any("ops of p1 ran at once" in text for text in run(program, host))


def test_a_failure_that_is_not_raised_is_found(host: RealHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "limit_of", lambda _text, default: default)
    assert any("did not fail" in text for text in run(GOOD["too many failures"], host))


def test_shrinking_leaves_what_fails() -> None:
    program = replace(
        GOOD["merged"],
        stages=(Fork("f8", (BATCHES, (pipe(9), pipe(10, op=Op(fatal=10, sleep=5)), pipe(11)))), pipe(12)),
        meddling=(Meddling("stop"), Meddling("concurrency", 2, "p10", 3)),
    )
    shrunk = shrink(program, lambda it: any(pipe.op.fatal for pipe in all_pipes(it)))
    assert shrunk == Program((Source(),), (pipe(10, op=Op(fatal=1)),))
