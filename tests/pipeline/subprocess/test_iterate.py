"""Test iterating in another process: items, passes, look-ahead, and arguments."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.pipeline.subprocess.work import (
    METHODS,
    Buffers,
    Given,
    Logged,
    Noted,
    Numbers,
    Restarting,
    generator,
    iterator,
    tell_done,
)
from tests.pipeline.support import wait_until

from spdl.pipeline import PipelineBuilder, iterate_in_subprocess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(120)


class TestPasses:
    @pytest.mark.parametrize("method", METHODS)
    def test_each_loop_is_a_pass_in_one_and_the_same_other_process(self, method: str) -> None:
        items = iterate_in_subprocess(Numbers(4), mp_context=method)
        passes = [list(items) for _ in range(3)]
        assert [[(number, i) for number, i, _ in each] for each in passes] == [
            [(number, i) for i in range(4)] for number in (1, 2, 3)
        ]
        processes = {pid for each in passes for _, _, pid in each}
        assert len(processes) == 1
        assert os.getpid() not in processes

    def test_of_nothing(self) -> None:
        items: Any = iterate_in_subprocess(list)
        assert [list(items), list(items)] == [[], []]

    def test_after_leaving_a_loop_the_next_starts_afresh(self, method: str) -> None:
        items = iterate_in_subprocess(Numbers(1000), mp_context=method)
        for stop_at in (0, 5, 17):
            for _, i, _ in items:
                if i == stop_at:
                    break
        numbers = [(number, i) for number, i, _ in items]
        assert numbers == [(4, i) for i in range(1000)]

    def test_leaving_a_loop_closes_what_was_iterated(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        items = iterate_in_subprocess(Logged(log, 1000))
        for i in items:
            if i == 2:
                break
        assert wait_until(lambda: log.read_text().endswith("closed\n"))
        assert len(log.read_text().splitlines()) <= 2 + 1 + 3 + 1 + 1

    def test_started_and_read_in_different_threads(self, method: str) -> None:
        def call(function: Callable[[], Any]) -> Any:
            with ThreadPoolExecutor(1) as executor:
                return executor.submit(function).result()

        items = call(lambda: iterate_in_subprocess(Numbers(5), mp_context=method))
        begun = call(lambda: iter(items))
        assert call(lambda: next(begun))[1] == 0
        # The thread that started the worker has ended long ago.
        time.sleep(0.1)
        assert [i for _, i, _ in begun] == [1, 2, 3, 4]

    def test_leaving_it_at_once_closes_it_too(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        items = iterate_in_subprocess(Logged(log, 1000))
        for _ in range(2):
            for _ in range(30):
                iter(items)
            assert list(items) == list(range(1000))

        def left_open() -> int:
            lines = log.read_text().splitlines()
            return lines.count("0") - lines.count("closed")

        assert wait_until(lambda: not left_open())

    def test_many_begun_and_never_read(self) -> None:
        items = iterate_in_subprocess(Numbers(100))
        for _ in range(50):
            iter(items)
        number, i, _ = next(iter(items))
        assert (number <= 51, i) == (True, 0)

    def test_a_later_pass_ends_the_one_before(self) -> None:
        items = iterate_in_subprocess(Numbers(10))
        first = iter(items)
        assert next(first)[:2] == (1, 0)
        second = iter(items)
        assert next(second)[:2] == (2, 0)
        with pytest.raises(RuntimeError, match="A later pass over the same worker process has ended this one"):
            next(first)
        # Dropping the pass that has ended must not end the other one.
        del first
        assert [i for _, i, _ in second] == list(range(1, 10))

    def test_an_iterator_that_ended_stays_ended(self) -> None:
        items = iterate_in_subprocess(Numbers(1))
        once = iter(items)
        assert len(list(once)) == 1
        assert list(once) == []
        assert len(list(items)) == 1
        assert list(once) == []

    def test_threads_that_share_an_iterator_get_each_item_once(self) -> None:
        items = iter(iterate_in_subprocess(Numbers(2000), buffer_size=50))
        got: list[int] = []

        def take() -> None:
            got.extend(i for _, i, _ in items)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == list(range(2000))

    def test_generator_is_refused_the_second_time(self, method: str) -> None:
        items = iterate_in_subprocess(generator, mp_context=method)
        assert list(items) == [0, 1, 2]
        with pytest.raises(
            RuntimeError, match=r"can be iterated only once, generator at .*work\.py.*can be iterated again"
        ):
            list(items)

    def test_generator_is_refused_after_leaving_a_loop(self) -> None:
        items = iterate_in_subprocess(generator)
        assert next(iter(items)) == 0
        with pytest.raises(RuntimeError, match="can be iterated only once"):
            next(iter(items))

    def test_other_iterator_that_gives_nothing_the_second_time(self) -> None:
        items = iterate_in_subprocess(iterator)
        assert list(items) == [1, 2]
        with pytest.raises(RuntimeError, match="can be iterated only once"):
            list(items)

    @pytest.mark.filterwarnings("ignore:The pipeline has been read to its end before")
    def test_pipeline_that_has_ended(self) -> None:
        items = iterate_in_subprocess(
            lambda: PipelineBuilder[Any, Any]().add_source([1, 2]).add_sink(1).build(num_threads=1), mp_context="fork"
        )
        assert list(items) == [1, 2]
        with pytest.raises(RuntimeError, match="can be iterated only once"):
            list(items)

    def test_iterator_that_starts_anew(self) -> None:
        items = iterate_in_subprocess(Restarting())
        assert [list(items), list(items)] == [[1, 0], [1, 0]]

    def test_it_feeds_a_pipeline(self) -> None:
        items = iterate_in_subprocess(Numbers(50))
        for number in (1, 2):
            pipeline = PipelineBuilder[Any, Any]().add_source(items).pipe(lambda x: x[:2]).add_sink(1)
            with pipeline.build(num_threads=3).auto_stop() as running:
                assert sorted(running) == [(number, i) for i in range(50)]


class TestLookAhead:
    @pytest.mark.parametrize("buffer_size", [1, 3, 20])
    def test_no_further_than_it_says(self, tmp_path: Path, buffer_size: int) -> None:
        log = tmp_path / "log"
        log.touch()
        items = iter(iterate_in_subprocess(Logged(log, 1000), buffer_size=buffer_size))
        assert next(items) == 0

        def begun() -> int:
            return len(log.read_text().splitlines())

        # The item that was taken, those in the buffer, and one that the worker holds.
        assert wait_until(lambda: begun() >= buffer_size + 1)
        time.sleep(0.05)
        assert buffer_size + 1 <= begun() <= buffer_size + 2

    def test_minus_one_sets_no_bound(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        items = iter(iterate_in_subprocess(Logged(log, 1000), buffer_size=-1))
        # The worker gets to its end before anything is taken.
        assert wait_until(lambda: log.exists() and log.read_text().endswith("999\nclosed\n"))
        assert list(items) == list(range(1000))

    def test_it_begins_with_the_iterator_and_not_with_the_first_item(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        items = iterate_in_subprocess(Logged(log, 3))
        assert not log.exists()
        begun = iter(items)
        assert wait_until(log.exists)
        assert list(begun) == [0, 1, 2]

    @pytest.mark.parametrize("buffer_size", [20_000, -1])
    def test_tens_of_thousands(self, buffer_size: int) -> None:
        items = iterate_in_subprocess(Numbers(40_000), buffer_size=buffer_size)
        begun = iter(items)
        assert next(begun)[1] == 0
        assert [i for _, i, _ in begun] == list(range(1, 40_000))
        del begun
        assert next(iter(items))[:2] == (2, 0)


class TestEnd:
    def test_the_process_ends_with_the_iterable(self) -> None:
        items = iterate_in_subprocess(Numbers(1000))
        begun = iter(items)
        process = psutil.Process(next(begun)[2])
        # The running iterator keeps the process.
        del items
        gc.collect()
        assert process.is_running()
        del begun
        assert wait_until(lambda: not process.is_running())

    def test_close(self) -> None:
        items = iterate_in_subprocess(Numbers(1000))
        begun = iter(items)
        process = psutil.Process(next(begun)[2])
        items.close()
        items.close()
        assert not process.is_running()
        for use in (lambda: next(begun), lambda: iter(items)):
            with pytest.raises(RuntimeError, match=r"The worker process is shutdown\. Cannot iterate again: it was cl"):
                use()

    def test_close_while_another_thread_waits(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        items = iterate_in_subprocess(lambda: _blocking(log), mp_context="fork")
        raised: list[BaseException] = []

        def wait() -> None:
            try:
                list(items)
            except RuntimeError as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        assert wait_until(log.exists)
        items.close()
        thread.join(20)
        assert "it was closed" in str(raised[0])

    def test_collected_in_a_cycle(self) -> None:
        items: Any = iterate_in_subprocess(Numbers(3))
        process = psutil.Process(next(iter(items))[2])
        items.itself = items
        watched = weakref.ref(items)
        del items
        gc.collect()
        assert watched() is None
        assert wait_until(lambda: not process.is_running())

    @pytest.mark.parametrize("method", METHODS)
    def test_interpreter_exits_in_a_loop(self, method: str) -> None:
        program = f"""
            from tests.pipeline.subprocess.work import Numbers
            from spdl.pipeline import iterate_in_subprocess
            if __name__ == "__main__":
                items = [iterate_in_subprocess(Numbers(1000), mp_context="{method}") for _ in range(2)]
                begun = [iter(each) for each in items]
                print(*[next(each)[2] for each in begun], flush=True)
        """
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], check=True, capture_output=True, text=True, timeout=60
        )
        assert done.stderr == ""
        assert time.monotonic() - begin < 30
        for pid in done.stdout.split():
            assert wait_until(lambda pid=pid: not psutil.pid_exists(int(pid)))  # type: ignore[misc]

    def test_forked_process_does_not_touch_it(self) -> None:
        items = iterate_in_subprocess(Buffers([10_000] * 3))
        list(items)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, _use_inherited(items).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        told = os.read(reader, 1000).decode()
        os.close(reader)
        os.close(writer)
        assert "belongs to the process that this one was forked from" in told
        assert len(list(items)) == 3


def _use_inherited(items: Any) -> str:
    # If this process kept the shared file, the file would live as long as this process.
    if "memfd:spdl" in Path("/proc/self/maps").read_text():
        return "the file was kept"
    try:
        return str(list(items))
    except RuntimeError as error:
        return str(error)


def _blocking(log: Path) -> Iterator[int]:
    log.touch()
    time.sleep(60)
    yield 1


class TestInitializers:
    def test_one(self, method: str) -> None:
        items = iterate_in_subprocess(tell_done, initializer=Noted("a"), mp_context=method)
        assert list(items) == [["a"]]

    def test_several_in_order(self) -> None:
        items = iterate_in_subprocess(tell_done, initializer=[Noted("b"), Noted("a"), Noted("c")])
        assert list(items) == [["b", "a", "c"]]

    def test_none(self) -> None:
        assert list(iterate_in_subprocess(tell_done, initializer=())) == [[]]


class TestArguments:
    @pytest.mark.parametrize(
        ("argument", "value", "error", "accepted"),
        [
            ("fn", [1, 2], TypeError, "callable without arguments"),
            ("fn", None, TypeError, "callable without arguments"),
            ("buffer_size", 0, ValueError, "an int of at least 1, or -1 for no bound"),
            ("buffer_size", -2, ValueError, "an int of at least 1, or -1 for no bound"),
            ("buffer_size", "3", TypeError, "an int of at least 1"),
            ("buffer_size", None, TypeError, "an int of at least 1"),
            ("initializer", 3, TypeError, "callable without arguments"),
            ("initializer", "abc", TypeError, "callable without arguments"),
            ("mp_context", "thread", ValueError, "one of"),
            ("mp_context", 3, TypeError, "a str"),
            ("timeout", "1", TypeError, "a number of seconds or None"),
            ("timeout", float("nan"), ValueError, "a number of seconds or None"),
            ("daemon", "no", TypeError, "True or False"),
        ],
    )
    def test_wrong(self, argument: str, value: Any, error: type[Exception], accepted: str) -> None:
        arguments = {"fn": list, argument: value}
        with pytest.raises(error) as caught:
            iterate_in_subprocess(**arguments)
        message = str(caught.value)
        assert message.startswith(f"`{argument}` must be {accepted}")
        assert repr(value) in message
        assert __file__ in message

    def test_one_of_several_initializers(self) -> None:
        with pytest.raises(TypeError, match=r"`initializer\[1\]` must be callable without arguments, got 3"):
            iterate_in_subprocess(list, initializer=[Noted("a"), 3])  # type: ignore[list-item]

    def test_arena_of_another_kind(self) -> None:
        with pytest.raises(TypeError, match=r"`arena` must be a SharedMemoryRingBuffer, .*, got 1 "):
            iterate_in_subprocess(list, arena=1)  # type: ignore[arg-type]

    def test_what_is_no_iterable(self) -> None:
        with pytest.raises(TypeError, match="`fn` must return an iterable, got 'int' from "):
            iterate_in_subprocess(functools.partial(int, 3))  # type: ignore[arg-type]

    def test_daemon(self) -> None:
        items = iterate_in_subprocess(Given(1), daemon=True)
        assert list(items) == [1]

    def test_daemonic_parent_is_told_what_to_do(self) -> None:
        items = iterate_in_subprocess(_nested, daemon=True, mp_context="fork")
        (told,) = items
        assert "is a daemon, which may not have children" in told
        assert "daemon=False" in told

    def test_parent_that_is_a_worker_itself(self) -> None:
        items = iterate_in_subprocess(_nested, mp_context="fork")
        assert list(items) == ["1"]


def _nested() -> list[str]:
    try:
        inner = iterate_in_subprocess(Given(1))
    except RuntimeError as error:
        return [str(error)]
    return [str(item) for item in inner]
