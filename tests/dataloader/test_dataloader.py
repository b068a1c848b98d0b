from __future__ import annotations

import asyncio
import gc
import itertools
import pickle
import subprocess
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dataloader.reading_on import reading_on
from tests.pipeline.support import let_go, wait_until

import spdl.pipeline
from spdl.dataloader import DataLoader, MapIterator, Pipeline, PipelineBuilder
from spdl.pipeline import PipelineFailure
from spdl.source.utils import repeat_source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def double(x: int) -> int:
    return 2 * x


def twice(x: int) -> Iterator[int]:
    yield x
    yield x


async def double_async(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


async def twice_async(x: int) -> AsyncIterator[int]:
    for _ in range(2):
        await asyncio.sleep(0)
        yield x


class Squares:
    def __call__(self, x: int) -> int:
        return x * x


FORK = """
import os
from spdl.dataloader import DataLoader

loader = DataLoader(range(4), transfer_fn=abs, output_order="input")
print(list(loader), flush=True)
if os.fork() == 0:
    print(list(loader), flush=True)
    os._exit(0)
assert os.wait()[1] == 0
print(list(loader))
"""


# A program that leaves its iterator open, which the interpreter closes when it takes its modules apart.
OPEN = """
from spdl.dataloader import DataLoader

def first():
    items = iter(DataLoader(range(1000), transfer_fn=lambda item: item, num_threads=NUM_THREADS))
    next(items)
    return items

items = first()
"""


# A program that ends while a transfer hangs.
HANG = """
import threading
from spdl.dataloader import DataLoader

begun = threading.Event()
never = threading.Event()
loader = DataLoader(range(4), transfer_fn=lambda item: begun.set() or never.wait())
threading.Thread(target=list, args=(loader,), daemon=True).start()
assert begun.wait(60)
print("leaving")
"""


def threads_of_engines() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("spdl_worker")]


def test_the_seeds_import_path() -> None:
    assert Pipeline is spdl.pipeline.Pipeline
    assert PipelineBuilder is spdl.pipeline.PipelineBuilder


@pytest.mark.parametrize(
    ("preprocessor", "expected"),
    [
        (None, range(20)),
        (double, range(0, 40, 2)),
        (double_async, range(0, 40, 2)),
        (twice, [x for x in range(20) for _ in range(2)]),
        (twice_async, [x for x in range(20) for _ in range(2)]),
        (Squares(), [x * x for x in range(20)]),
        ([7] * 20, [7] * 20),
    ],
    ids=["none", "function", "async", "generator", "async generator", "object", "list"],
)
@pytest.mark.parametrize("order", ["input", "completion"])
def test_kinds_of_preprocessors(preprocessor: Any, expected: Any, order: Any) -> None:
    loader: DataLoader[int, int] = DataLoader(range(20), preprocessor=preprocessor, output_order=order)
    for _ in range(2):
        results = list(loader)
        assert (results if order == "input" else sorted(results)) == list(expected)


def test_an_async_source() -> None:
    class Source:
        async def __aiter__(self) -> AsyncIterator[int]:
            for number in range(10):
                await asyncio.sleep(0)
                yield number

    loader: DataLoader[int, list[int]] = DataLoader(Source(), preprocessor=double, batch_size=5, output_order="input")
    assert list(loader) == list(loader) == [[0, 2, 4, 6, 8], [10, 12, 14, 16, 18]]
    with pytest.raises(TypeError, match="no len\\(\\), since its `src` has none: Source"):
        len(loader)


@pytest.mark.filterwarnings("ignore:The source of the pipeline")
@settings(max_examples=40, deadline=None)
@given(size=st.integers(0, 30), batch_size=st.none() | st.integers(1, 9), drop_last=st.booleans())
def test_batches_and_their_number(size: int, batch_size: int | None, drop_last: bool) -> None:  # noqa: FBT001
    items = list(range(size))
    if batch_size is None:
        expected: list[Any] = items
    else:
        expected = [items[begin : begin + batch_size] for begin in range(0, size, batch_size)]
        if drop_last and expected and len(expected[-1]) < batch_size:
            expected.pop()
    loader: DataLoader[Any, Any] = DataLoader(items, batch_size=batch_size, drop_last=drop_last, output_order="input")
    assert list(loader) == expected
    assert len(loader) == len(expected)


@pytest.mark.parametrize("order", ["input", "completion"])
def test_order_of_batches_made_concurrently(order: Any) -> None:
    second_is_made = threading.Event()

    def aggregate(batch: list[int]) -> int:
        if batch[0] == 0:
            assert second_is_made.wait(60)
        return batch[0]

    # What comes out of the second batch's way shows that it was made.
    def transfer(first: int) -> int:
        return first

    loader: DataLoader[int, int] = DataLoader(
        range(16), batch_size=2, aggregator=aggregate, transfer_fn=transfer, output_order=order, num_threads=2
    )
    items = iter(loader)
    if order == "completion":
        assert next(items) == 2
        second_is_made.set()
        assert sorted(items) == [0, *range(4, 16, 2)]
    else:
        threading.Timer(0.05, second_is_made.set).start()
        assert list(items) == list(range(0, 16, 2))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_aggregator_takes_lists_or_without_batches_single_results(asynchronous: bool) -> None:  # noqa: FBT001
    async def total_async(batch: Any) -> Any:
        await asyncio.sleep(0)
        return ("total", batch)

    aggregator: Any = total_async if asynchronous else lambda batch: ("total", batch)
    batched: DataLoader[Any, Any] = DataLoader(range(4), batch_size=3, aggregator=aggregator, output_order="input")
    assert list(batched) == [("total", [0, 1, 2]), ("total", [3])]
    single: DataLoader[Any, Any] = DataLoader(range(3), aggregator=aggregator, output_order="input")
    assert list(single) == [("total", 0), ("total", 1), ("total", 2)]


class TestTransfer:
    def test_one_thread_for_all_iterations(self) -> None:
        transferring = set()
        others = set()

        def prepare(x: int) -> int:
            others.add(threading.get_ident())
            time.sleep(0.001)
            return x

        def transfer(x: int) -> int:
            transferring.add(threading.get_ident())
            return -x

        loader: DataLoader[int, int] = DataLoader(range(40), preprocessor=prepare, transfer_fn=transfer, num_threads=3)
        for _ in range(3):
            assert sorted(loader) == list(range(-39, 1))
        assert len(transferring) == 1
        assert not transferring & others

    def test_it_takes_none_of_the_threads(self) -> None:
        may_end = threading.Event()
        prepared = []

        def prepare(x: int) -> int:
            prepared.append(x)
            return x

        def transfer(x: int) -> int:
            assert may_end.wait(20)
            return x

        loader: DataLoader[int, int] = DataLoader(range(20), preprocessor=prepare, transfer_fn=transfer, num_threads=1)
        items = iter(loader)
        first = threading.Thread(target=lambda: next(items))
        first.start()
        # The only thread of the engine's goes on while the first item is transferred.
        assert wait_until(lambda: len(prepared) >= 2)
        may_end.set()
        first.join()
        assert len(list(items)) == 19

    def test_its_thread_ends_with_the_loader(self) -> None:
        threads = []

        def transfer(x: int) -> int:
            threads.append(threading.current_thread())
            return x

        loader: DataLoader[int, int] = DataLoader(range(3), transfer_fn=transfer)
        assert list(loader) == [0, 1, 2]
        assert threads[0].is_alive()
        assert threads[0].name.startswith("spdl_transfer")
        assert threads[0].daemon, "the interpreter does not wait for it"
        del loader
        gc.collect()
        assert wait_until(lambda: not threads[0].is_alive())

    def test_calls_follow_each_other(self) -> None:
        order: list[int] = []
        loader: DataLoader[int, Any] = DataLoader(
            range(50), transfer_fn=order.append, output_order="input", num_threads=4
        )
        with pytest.warns(RuntimeWarning, match="'append' dropped 50 items"):
            list(loader)
        assert order == list(range(50))

    def test_one_that_fails_is_followed_by_others(self, caplog: pytest.LogCaptureFixture) -> None:
        def transfer(x: int) -> float:
            return 6 // (x - 1)

        loader: DataLoader[int, Any] = DataLoader(range(4), transfer_fn=transfer, output_order="input")
        assert list(loader) == [-6, 6, 3]
        assert "ZeroDivisionError" in caplog.text

    def test_its_thread_keeps_no_result(self) -> None:
        class Result:
            pass

        gate, begun = threading.Event(), threading.Event()

        def transfer(x: int) -> Result:
            if x:
                begun.set()
                assert gate.wait(60)
            return Result()

        items = iter(DataLoader[int, Any](range(2), transfer_fn=transfer, output_order="input", num_threads=1))
        gone = weakref.ref(next(items))

        def is_gone() -> bool:
            let_go()
            return gone() is None

        assert wait_until(is_gone, 60)
        gate.set()
        assert len(list(items)) == 1

    @pytest.mark.long  # The interpreter waits ten seconds for the loader to stop.
    def test_a_call_that_does_not_return_keeps_no_process_alive(self) -> None:
        done = subprocess.run([sys.executable, "-c", HANG], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == "leaving\n"

    def test_an_async_one(self) -> None:
        loader: DataLoader[Any, Any] = DataLoader(range(5), transfer_fn=double_async)
        assert list(loader) == [0, 2, 4, 6, 8]

    def test_a_loader_that_was_used_can_be_pickled(self) -> None:
        loader: DataLoader[int, int] = DataLoader(range(4), preprocessor=double, transfer_fn=abs, output_order="input")
        assert list(loader) == [0, 2, 4, 6]
        copy = pickle.loads(pickle.dumps(loader))  # noqa: S301 - our own bytes.
        assert list(copy) == [0, 2, 4, 6]

    def test_a_forked_child_has_a_thread_of_its_own(self) -> None:
        done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=30, check=True)
        assert done.stdout.splitlines() == ["[0, 1, 2, 3]"] * 3


class TestEnds:
    def test_a_loop_that_is_left(self) -> None:
        loader: DataLoader[int, int] = DataLoader(Endless(), num_threads=2)
        for _ in range(2):
            for _ in loader:
                break
            # One that is held up in the source is not waited for any longer than half a second.
            assert wait_until(lambda: not threads_of_engines())

    def test_a_loop_that_raises(self) -> None:
        loader: DataLoader[int, int] = DataLoader(Endless(), num_threads=2)
        with pytest.raises(ZeroDivisionError):
            divide_in_loop(loader)
        assert wait_until(lambda: not threads_of_engines())

    def test_an_iteration_that_never_begins_starts_nothing(self) -> None:
        source = Endless()
        loader: DataLoader[int, int] = DataLoader(source)
        iter(loader)
        assert source.passes == 0
        assert not threads_of_engines()

    def test_two_iterations_at_a_time(self) -> None:
        loader: DataLoader[int, int] = DataLoader(range(50), preprocessor=double, output_order="input")
        assert list(zip(loader, loader, strict=True)) == [(2 * x, 2 * x) for x in range(50)]

    def test_a_timeout(self) -> None:
        pause = threading.Event()

        def wait(x: int) -> int:
            if x == 3:
                pause.wait(20)
            return x

        loader: DataLoader[int, int] = DataLoader(range(9), preprocessor=wait, num_threads=1, timeout=0.05)
        items = iter(loader)
        assert list(itertools.islice(reading_on(items), 3)) == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(TimeoutError, match="the next read continues"):
                next(items)
        pause.set()
        # Nothing is lost.
        assert list(itertools.islice(reading_on(items), 6)) == list(range(3, 9))
        assert list(reading_on(items)) == []

    def test_a_loop_that_is_left_by_a_timeout_ends_its_iteration(self) -> None:
        pause = threading.Event()

        def wait(x: int) -> int:
            pause.wait(60)
            return x

        loader: DataLoader[int, int] = DataLoader(range(9), preprocessor=wait, num_threads=1, timeout=0.05)
        # Stopping waits for the op.
        threading.Timer(3, pause.set).start()
        with pytest.raises(TimeoutError):
            list(loader)
        assert wait_until(lambda: not threads_of_engines())
        assert sorted(reading_on(iter(loader))) == list(range(9))

    def test_closing_an_iteration(self) -> None:
        loader: DataLoader[int, int] = DataLoader(Endless(), num_threads=2)
        items: Any = iter(loader)
        assert next(items) == 0
        items.close()
        assert wait_until(lambda: not threads_of_engines())
        assert list(items) == []

    def test_a_batch_does_not_outlive_its_loop(self) -> None:
        gate, gone = threading.Event(), threading.Event()

        class Batch:
            def __del__(self) -> None:
                gone.set()

        def make(x: int) -> Batch:
            assert x == 0 or gate.wait(20)
            return Batch()

        items = iter(DataLoader[int, Batch](range(2), preprocessor=make, num_threads=1, timeout=20))
        next(items)
        let_go()
        assert gone.wait(60)
        gate.set()
        assert len(list(items)) == 1


def test_its_type_parameters_are_those_of_the_source_and_of_the_output() -> None:
    """At run time, too: annotations and base classes are evaluated."""

    class Words(DataLoader[str, int]):
        pass

    assert list(Words(["a", "bc"], preprocessor=len, output_order="input")) == [1, 2]


class Endless:
    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        return itertools.count()


def divide_in_loop(loader: DataLoader[int, int]) -> None:
    for item in loader:
        1 // (item * 0)


class TestFailures:
    def test_an_item_that_fails_is_dropped_and_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        loader: DataLoader[int, int] = DataLoader(range(5), preprocessor=[0, 10, 20], output_order="input")  # type: ignore[arg-type]
        assert list(loader) == [0, 10, 20]
        assert "IndexError" in caplog.text

    def test_a_source_that_raises(self) -> None:
        class Source:
            def __iter__(self) -> Iterator[int]:
                yield 1
                raise OSError("disk")

        loader: DataLoader[int, int] = DataLoader(Source())
        items = iter(loader)
        assert next(items) == 1
        with pytest.raises(PipelineFailure) as caught:
            next(items)
        assert "disk" in str(caught.value.exceptions)
        assert wait_until(lambda: not threads_of_engines())

    def test_all_items_fail(self, caplog: pytest.LogCaptureFixture) -> None:
        loader: DataLoader[Any, Any] = DataLoader([*"abc"], preprocessor=int)
        with pytest.raises(PipelineFailure) as caught:
            list(loader)
        assert "all 3 items failed" in str(caught.value.exceptions[0])
        assert "ValueError" in caplog.text


class TestSourcesOfOnePass:
    @pytest.mark.parametrize("make", [iter, lambda items: (x for x in items), repeat_source])
    def test_the_second_iteration_raises(self, make: Any) -> None:
        loader: DataLoader[int, int] = DataLoader(make([1, 2, 3]), output_order="input")
        assert list(itertools.islice(loader, 3)) == [1, 2, 3]
        with pytest.raises(RuntimeError, match=r"`src`, of type \w+, is its own iterator and was iterated before"):
            next(iter(loader))

    def test_also_of_an_async_one(self) -> None:
        async def source() -> AsyncIterator[int]:
            for number in range(3):
                await asyncio.sleep(0)
                yield number

        loader: DataLoader[int, int] = DataLoader(source())
        assert list(loader) == [0, 1, 2]
        with pytest.raises(RuntimeError, match="of type async_generator, is its own iterator"):
            list(loader)

    def test_an_iteration_that_never_began_does_not_count(self) -> None:
        loader: DataLoader[int, int] = DataLoader(iter([1, 2]))
        iter(loader)
        assert list(loader) == [1, 2]


def test_a_source_that_is_only_looked_up() -> None:
    dataset: Any = type("Dataset", (), {"__getitem__": lambda _, index: index, "__len__": lambda _: 3})()
    with pytest.raises(TypeError, match=r"`src` must be an iterable or an async iterable.*wrap it in a MapIterator\.$"):
        DataLoader(dataset)
    assert list(DataLoader(MapIterator(dataset), output_order="input")) == [0, 1, 2]


@pytest.mark.parametrize("preprocessor", [twice, twice_async, type("Op", (), {"__call__": lambda _, x: (yield x)})()])
def test_no_length_where_a_preprocessor_generates(preprocessor: Any) -> None:
    loader: DataLoader[int, int] = DataLoader([1], preprocessor=preprocessor)
    with pytest.raises(TypeError, match="its `preprocessor` makes any number of results of an item"):
        len(loader)


@pytest.mark.parametrize("num_threads", ["1", "'auto'"])
def test_the_interpreter_exits_with_an_open_iterator(num_threads: str) -> None:
    program = OPEN.replace("NUM_THREADS", num_threads)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"src": 3}, TypeError, "`src` must be an iterable or an async iterable, not text, got 3"),
        (
            {"src": "photos"},
            TypeError,
            ". Pass `[item]` for a single item, and `sorted(Path(folder).rglob('*.jpg'))` for ",
        ),
        ({"preprocessor": 3}, TypeError, "`preprocessor` must be a callable or None, got 3"),
        ({"aggregator": 3}, TypeError, "`aggregator` must be a callable or None, got 3"),
        ({"transfer_fn": 3}, TypeError, "`transfer_fn` must be a callable or None, got 3"),
        ({"batch_size": 0}, ValueError, "`batch_size` must be an int of at least 1, got 0"),
        ({"batch_size": 2.5}, TypeError, "`batch_size` must be an int of at least 1, got 2.5"),
        ({"drop_last": "no"}, TypeError, "`drop_last` must be True or False, got 'no'"),
        ({"buffer_size": 0}, ValueError, "`buffer_size` must be an int of at least 1, got 0"),
        ({"num_threads": 0}, ValueError, '`num_threads` must be an int of at least 1, or "auto", got 0'),
        ({"timeout": "1"}, TypeError, "`timeout` must be a number of seconds or None, got '1'"),
        ({"output_order": "random"}, ValueError, "`output_order` must be 'completion' or 'input', got 'random'"),
    ],
)
def test_mistakes_are_told_at_the_construction(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        DataLoader(**{"src": [1], **arguments})
    assert message in str(caught.value)
    assert __file__ in str(caught.value)
