"""Test sources with a dedicated thread."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.support import rests, source, wait_until

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestDedicatedThread:
    def test_everything_happens_in_one_thread(self) -> None:
        seen: list[tuple[str, int]] = []

        class Source:
            def __iter__(self) -> Source:
                seen.append(("iter", threading.get_ident()))
                self.left = 200
                return self

            def __next__(self) -> int:
                seen.append(("next", threading.get_ident()))
                self.left -= 1
                return self.left

            def close(self) -> None:
                seen.append(("close", threading.get_ident()))

        builder = source(Source(), dedicated_thread=True).pipe(lambda x: x, concurrency=3)
        with builder.add_sink(2).build(num_threads=3).auto_stop() as pipeline:
            assert max(pipeline.get_item(timeout=10) for _ in range(50)) == 199
            # A stop does not wait for long for a source that is asked for an item at that moment.
            assert wait_until(lambda: rests(pipeline))
        assert len({ident for _, ident in seen}) == 1
        assert seen[0][0] == "iter"
        assert [name for name, _ in seen].count("close") == 1

    @pytest.mark.parametrize("fails", [False, True])
    def test_stop_waits_until_it_is_closed(self, *, fails: bool) -> None:
        closed: list[str] = []

        class Source:
            def __iter__(self) -> Source:
                return self

            def __next__(self) -> int:
                return 1

            def close(self) -> None:
                # Longer than `stop` waits for a source that blocks.
                time.sleep(0.8)
                closed.append("closed")
                if fails:
                    raise OSError("not committed")

        pipeline = source(Source(), dedicated_thread=True).add_sink(2).build(num_threads=1)
        pipeline.start()
        assert pipeline.get_item(timeout=10) == 1
        assert wait_until(lambda: rests(pipeline))
        if fails:
            with pytest.raises(PipelineFailure) as caught:
                pipeline.stop(timeout=10)
            assert str(caught.value.exceptions[0]) == "not committed"
        else:
            pipeline.stop(timeout=10)
        assert closed == ["closed"]

    def test_a_cursor(self) -> None:
        def rows() -> Iterator[int]:
            with sqlite3.connect(":memory:") as connection:
                connection.execute("create table t (x)")
                connection.executemany("insert into t values (?)", [(x,) for x in range(300)])
                for (x,) in connection.execute("select x from t order by x"):
                    yield x
            connection.close()

        builder = source(rows(), dedicated_thread=True).pipe(lambda x: x, concurrency=2, output_order="input")
        with builder.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == list(range(300))

    @pytest.mark.parametrize("stages", [0, 1])
    def test_it_waits_for_room(self, stages: int) -> None:
        pulled = 0

        def items() -> Iterator[int]:
            nonlocal pulled
            for x in range(100):
                pulled += 1
                yield x

        builder = source(items(), dedicated_thread=True)
        for _ in range(stages):
            builder.pipe(lambda x: x)
        with builder.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
            assert pipeline.get_item(timeout=10) == 0
            time.sleep(0.03)
            assert pulled < 12
            assert list(pipeline.get_iterator(timeout=10)) == list(range(1, 100))

    def test_failures_and_epochs(self) -> None:
        def failing() -> Iterator[int]:
            yield 1
            raise OSError("gone")

        pipeline = source(failing(), dedicated_thread=True).add_sink(3).build(num_threads=1)
        pipeline.start()
        assert pipeline.get_item(timeout=10) == 1
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=10)
        pipeline.stop()
        builder = source([1, 2], dedicated_thread=True, continuous=True).pipe(lambda x: x)
        with builder.add_sink(3).build(num_threads=1).auto_stop() as pipeline:
            assert [list(pipeline.get_iterator(timeout=10)) for _ in range(3)] == [[1, 2]] * 3
