"""Test ops that call their own pipeline, ops that never return, and processes that die, wherever the op runs.

Each case must follow the rule of `test_fault_errors`.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.kinds import KINDS, Item, Items, Kind
from tests.pipeline.support import Gate, wait_until

from spdl.pipeline import Pipeline, PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 12
BAD = 5
DEADLINE = 20

# An op that holds the pipeline cannot be sent to another process.
AT_HOME = [kind for kind in KINDS if kind.name != "processes"]


class Calls:
    """An op that calls the pipeline at one item."""

    def __init__(self, act: Callable[[Pipeline[Any]], object]) -> None:
        self.act = act
        self.pipeline: Pipeline[Any] | None = None
        self.outcome: object = None

    def __call__(self, x: Item) -> Item:
        if x.number == BAD:
            assert self.pipeline is not None
            try:
                self.outcome = self.act(self.pipeline)
            except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it.
                self.outcome = repr(error)
        return x


def is_over(pipeline: Pipeline[Any]) -> bool:
    return not any(thread.is_alive() for thread in pipeline._engine.all_threads())


@pytest.mark.parametrize("kind", AT_HOME, ids=str)
class TestCalls:
    def read(self, kind: Kind, op: Calls, items: Items, sink: int = 2) -> list[int]:
        with kind.pipeline(op, items, sink=sink) as pipeline:
            op.pipeline = pipeline
            with pipeline.auto_stop(timeout=DEADLINE):
                got = [item.number for item in pipeline.get_iterator(timeout=DEADLINE)]
            # A stop does not wait for long for a source that is asked for an item at that moment.
            assert is_over(pipeline) or (not kind.waits and wait_until(partial(is_over, pipeline)))
            op.pipeline = None
        return got

    def test_stop(self, kind: Kind) -> None:
        op, items = Calls(lambda pipeline: pipeline.stop()), Items(COUNT)
        begin = time.monotonic()
        got = self.read(kind, op, items)
        assert time.monotonic() - begin < 9
        assert op.outcome is None
        assert len(got) == len(set(got))
        assert set(got) <= set(range(COUNT))
        assert wait_until(lambda: not items.alive())

    def test_looking_at_it(self, kind: Kind) -> None:
        def look(pipeline: Pipeline[Any]) -> int:
            assert "running" in repr(pipeline)
            assert pipeline.failures() is not None
            return len(pipeline.statistics().stages)

        op, items = Calls(look), Items(COUNT)
        got = self.read(kind, op, items)
        assert isinstance(op.outcome, int)
        assert sorted(got) == list(range(COUNT))

    @pytest.mark.parametrize("timeout", [None, 0.05])
    def test_reading_it(self, kind: Kind, timeout: float | None) -> None:
        mine: list[int] = []

        def read(pipeline: Pipeline[Any]) -> None:
            if timeout is None and kind.name == "pipeline_source":
                # The inner pipeline's op may wait for items of the outer pipeline.
                raise RuntimeError
            while True:
                mine.append(pipeline.get_item(timeout=timeout).number)

        op, items = Calls(read), Items(COUNT)
        got = self.read(kind, op, items)
        assert sorted(got + mine) == list(range(COUNT))
        assert str(op.outcome).startswith(("RuntimeError", "TimeoutError"))


class Blocks:
    """An op that does not return at one item until it is told to."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, x: Item) -> Item:
        if x.number == BAD:
            self.gate.wait(30)
        return x


@pytest.mark.parametrize("kind", AT_HOME, ids=str)
def test_an_op_that_does_not_return(kind: Kind) -> None:
    op, items = Blocks(), Items(COUNT)
    with kind.pipeline(op, items) as pipeline:
        pipeline.start()
        got: list[int] = []
        entered = False
        with pytest.raises((TimeoutError, EOFError)):  # noqa: PT012 - as many as come.
            while True:
                try:
                    got.append(pipeline.get_item(timeout=0.3).number)
                except TimeoutError:
                    # A busy machine may need longer before.
                    if entered:
                        raise
                    entered = op.gate.is_awaited(0.1)
        assert entered or op.gate.is_awaited()
        assert len(got) < COUNT
        if kind.waits:
            with pytest.raises(TimeoutError, match=rf"(?s){kind.stage}.*self\.gate\.wait\(30\)"):
                pipeline.stop(timeout=0.1)
            with pytest.raises(TimeoutError):
                pipeline.stop(timeout=0)
        else:
            begin = time.monotonic()
            pipeline.stop(timeout=20)
            assert time.monotonic() - begin < 10
        op.gate.set()
        pipeline.stop(timeout=DEADLINE)
        assert wait_until(partial(is_over, pipeline))
    del pipeline
    assert wait_until(lambda: not items.alive())


class Dies:
    """An op that ends its process at one item."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __call__(self, x: Item) -> Item:
        if x.number == BAD:
            if self.way == "exit":
                os._exit(3)
            os.kill(os.getpid(), signal.SIGKILL)
        return x


@pytest.mark.parametrize("way", ["exit", "kill"])
def test_a_process_that_dies(way: str) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "processes")
    items = Items(COUNT)
    got: list[int] = []
    with kind.pipeline(Dies(way), items) as pipeline:
        pipeline.start()
        with pytest.raises(PipelineFailure, match="pipeline stages failed") as caught:  # noqa: PT012 - as many as come.
            while True:
                got.append(pipeline.get_item(timeout=DEADLINE).number)
        assert "BrokenProcessPool" in repr(caught.value.exceptions)
        pipeline.stop(timeout=DEADLINE)
        assert is_over(pipeline)
    assert len(got) == len(set(got))
    assert set(got) <= set(range(COUNT)) - {BAD}
