"""Test the record of failed items."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import fails_at, source

from spdl.pipeline import FailedItem, PipelineBuilder, build_pipeline
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Iterator


def run(builder: PipelineBuilder[Any, Any], **kwargs: Any) -> list[Any]:
    with builder.add_sink(1000).build(num_threads=2, **kwargs).auto_stop() as pipeline:
        return list(pipeline.get_iterator(timeout=20))


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class TestQuarantine:
    def test_it_says_what_failed_where_and_why(self) -> None:
        pipeline = (
            source(["a" * 10_000, "b"]).pipe(lambda x: {"b": 1}[x], name="look up").add_sink(2).build(num_threads=1)
        )
        with pipeline.auto_stop():
            assert list(pipeline) == [1]
        (item,) = pipeline.failures()
        assert isinstance(item, FailedItem)
        assert (item.stage, item.positions, item.attempts) == ("look up", (0,), 1)
        assert item.item.startswith("'aaa")
        assert len(item.item) < 300
        assert item.error.startswith("KeyError: ")
        assert "Traceback" in item.traceback
        assert "test_quarantine.py" in item.traceback

    def test_it_is_bounded(self) -> None:
        pipeline = source(range(1000)).pipe(lambda x: x // (x // 999)).add_sink(2).build(num_threads=1)
        with pipeline.auto_stop():
            assert list(pipeline) == [999]
        assert [item.positions for item in pipeline.failures()] == [(x,) for x in range(899, 999)]

    def test_one_exception_object_for_all_items_is_shown_with_its_last_frames(self) -> None:
        gone = ConnectionError("gone")

        def give(x: int) -> int:
            if x:
                raise gone
            return x

        pipeline = source(range(300)).pipe(give, name="give").add_sink(2).build(num_threads=1)
        with pipeline.auto_stop():
            assert list(pipeline) == [0]
        last = pipeline.failures()[-1]
        assert last.positions == (299,)
        # Each raise adds frames to the object. What is written of it stays as long.
        assert 0 < last.traceback.count("in give") <= 100

    @pytest.mark.parametrize(
        ("item", "shown"),
        [
            (Unprintable(), "<Unprintable instance at "),
            (b"x" * 10**6, "b'" + "x" * 40 + "'... (1000000 bytes)"),
            (bytearray(1), "bytearray(b'\\x00')"),
            (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        ],
    )
    def test_items_are_shortened(self, item: Any, shown: str) -> None:
        pipeline = source([item, 1]).pipe(lambda x: x + 1).add_sink(2).build(num_threads=1)
        with pipeline.auto_stop():
            assert list(pipeline) == [2]
        assert pipeline.failures()[0].item.startswith(shown)

    def test_the_callback_gets_each_item(self, caplog: pytest.LogCaptureFixture) -> None:
        told: list[FailedItem] = []

        def tell(item: FailedItem) -> None:
            told.append(item)
            if item.positions == (3,):
                raise RuntimeError("cannot even tell")

        with caplog.at_level(logging.ERROR, "spdl.pipeline"):
            assert run(source(range(6)).pipe(fails_at(1, 3), on_failure=tell)) == [0, 2, 4, 5]
        assert [item.positions for item in told] == [(1,), (3,)]
        assert "The on_failure callback of stage 'op' raised" in caplog.text

    def test_it_keeps_no_item_alive(self, caplog: pytest.LogCaptureFixture) -> None:
        # A captured log record would hold the traceback, and so the item.
        caplog.set_level(logging.CRITICAL, "spdl.pipeline")
        alive = []

        class Item:
            def __init__(self) -> None:
                alive.append(self)

            def __del__(self) -> None:
                dead.set()

        dead = threading.Event()

        def items() -> Iterator[Any]:
            yield 1
            yield Item()
            alive.clear()
            yield 2

        def op(x: Any) -> int:
            if isinstance(x, Item):
                raise TypeError("an item")
            return int(x)

        pipeline = source(items()).pipe(op, concurrency=1).add_sink(5).build(num_threads=1)
        with pipeline.auto_stop():
            assert list(pipeline) == [1, 2]
            assert len(pipeline.failures()) == 1
        assert dead.wait(20)


def test_the_source_is_named_if_there_are_several() -> None:
    sources = [PipelineConfig(SourceConfig(range(3)), [], SinkConfig(1)) for _ in range(2)]
    config = PipelineConfig(Merge(sources), [Pipe(fails_at(1))], SinkConfig(9))
    with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        assert sorted(pipeline.get_iterator(timeout=20)) == [0, 0, 2, 2]
    origins = [item.origin for item in pipeline.failures()]
    assert sorted(origins) == ["source item 1 of source 0", "source item 1 of source 1"]
    with source(range(3)).pipe(fails_at(1)).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [0, 2]
    assert [item.origin for item in pipeline.failures()] == ["source item 1"]


def test_it_can_be_read_while_items_fail() -> None:
    # Without a GIL, a record may be added while the records are read.
    def op(x: int) -> int:
        if x:
            raise ValueError(x)
        return x

    pipeline = source(range(1000)).pipe(op, concurrency=4).add_sink(1).build(num_threads=4)
    with pipeline.auto_stop():
        seen = 0
        while len(pipeline.failures()) < 100 or seen < 999:
            assert len(pipeline.failures()) <= 100
            seen = pipeline.statistics().stages[1].num_failed
        assert pipeline.get_item(timeout=10) == 0
