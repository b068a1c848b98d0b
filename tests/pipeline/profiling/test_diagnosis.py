"""Test diagnostic mode, in which pipelines profile instead of running."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source

from spdl.pipeline import (
    Pipeline,
    PipelineFailure,
    ProfileResult,
    config,
    iterate_in_subprocess,
    run_pipeline_in_subprocess,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture(autouse=True)
def diagnostic_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE", "1")
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS", "12")


@pytest.fixture
def results() -> Iterator[list[ProfileResult]]:
    found: list[ProfileResult] = []
    config.set_default_profile_callback(found.append)
    yield found
    config.set_default_profile_callback(None)


def build(seen: set[int]) -> Pipeline[int]:
    def op(x: int) -> int:
        seen.add(x)
        return x

    return source(range(100)).pipe(op, name="op").add_sink().build(num_threads=1)


@pytest.mark.parametrize("read", [lambda it: it.get_item(timeout=1), list, lambda it: next(it.get_iterator())])
def test_the_first_read_profiles_and_ends_the_process(
    read: Callable[[Any], Any], results: list[ProfileResult], capsys: pytest.CaptureFixture[str]
) -> None:
    seen: set[int] = set()
    pipeline = build(seen)
    with pipeline.auto_stop():
        assert not seen
        with pytest.raises(SystemExit) as exit_:
            read(pipeline)
    assert exit_.value.code == 0
    assert seen == set(range(12))
    assert [it.name for it in results] == ["op"]
    assert capsys.readouterr().err == f"{results[0]}\n"


def test_what_is_logged_is_not_printed_as_well(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "spdl.pipeline")
    with pytest.raises(SystemExit):
        build(set()).get_item()
    assert len(caplog.records) == 1
    assert capsys.readouterr().err == ""


def test_it_is_a_pipeline_that_does_nothing() -> None:
    seen: set[int] = set()
    pipeline = build(seen)
    assert isinstance(pipeline, Pipeline)
    pipeline.start()
    pipeline.start()
    pipeline.stop(timeout=0)
    assert pipeline.statistics().stages[1].num_completed == 0
    assert "op(concurrency=1" in repr(pipeline)
    assert not seen


def test_a_pipeline_as_the_source_of_another(results: list[ProfileResult]) -> None:
    """The inner pipeline is read first, so it is the one that is profiled."""
    inner = source(range(100)).pipe(str, name="inner").add_sink().build(num_threads=1)
    outer = source(inner).pipe(len, name="outer").add_sink().build(num_threads=1)
    with outer.auto_stop(), pytest.raises(SystemExit):
        list(outer)
    inner.stop()
    assert [it.name for it in results] == ["outer"]
    assert inner.statistics().stages[1].num_emitted >= 12


def test_mistakes_are_reported_all_the_same() -> None:
    with pytest.raises(ValueError, match="num_threads"):
        source([1]).add_sink().build(num_threads=0)
    with pytest.raises(TypeError, match="timeout"):
        build(set()).get_iterator(timeout="1")  # type: ignore[arg-type]


def test_other_words_do_not_switch_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE", "off")
    with build(set()).auto_stop() as pipeline:
        assert sorted(pipeline) == list(range(100))


def test_a_process() -> None:
    program = """
from spdl.pipeline import PipelineBuilder
pipeline = PipelineBuilder().add_source(range(9)).pipe(abs).add_sink().build(num_threads=1)
with pipeline.auto_stop():
    for item in pipeline:
        print(item)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], check=False, capture_output=True, text=True, env=os.environ
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("abs: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("feeds_another", [False, True])
def test_a_pipeline_in_a_worker_process(method: str, feeds_another: bool, capfd: pytest.CaptureFixture[str]) -> None:  # noqa: FBT001 - a case.
    """The pipeline is profiled in the worker, and this process ends just as if the pipeline were here."""
    declared = source(range(30)).pipe(abs, name="inner").add_sink().get_config()
    items: Iterable[int] = run_pipeline_in_subprocess(declared, num_threads=1, mp_context=method)
    if feeds_another:
        items = source(items).pipe(str, name="outer").add_sink().build(num_threads=1)
    with pytest.raises(SystemExit) as exit_:
        list(items)
    assert exit_.value.code == 0
    printed = capfd.readouterr().err
    assert printed.startswith("inner: ")
    assert printed.count("\n") == 1


def test_a_source_that_fails_is_told_all_the_same() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise OSError("no disk")

    with pytest.raises(PipelineFailure) as caught:
        list(source(failing()).pipe(abs).add_sink().build(num_threads=1))
    assert isinstance(caught.value.exceptions[0], OSError)


def test_an_op_that_exits_in_a_worker_process_is_an_error_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the exit after a profile ends this process, too."""
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE", "0")

    def exiting() -> Iterator[int]:
        yield 1
        raise SystemExit(0)

    items = iter(iterate_in_subprocess(exiting, mp_context="fork"))
    assert next(items) == 1
    with pytest.raises(RuntimeError, match="SystemExit: 0"):
        next(items)
