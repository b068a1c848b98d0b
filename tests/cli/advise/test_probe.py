"""What the probe in a job's processes does: when it collects batches ahead, and what it makes of calls."""

from __future__ import annotations

import io
import sys
import time
import zlib
from collections import deque
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from spdl.cli._advise._probe.ahead import Ahead
from spdl.cli._advise._probe.call_times import CallTimes
from spdl.cli._advise._probe.loop_times import LoaderTimes
from spdl.cli._advise._probe.trial import Onward

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Iterator:
    """Stands in for PyTorch's iterator with workers, which have made what they were told to."""

    def __init__(self, sampler: Any, length: int = 1000) -> None:
        self._index_sampler = sampler
        self._num_yielded = 40
        self._tasks_outstanding = 2
        self._data_queue = SimpleNamespace(qsize=lambda: 2)
        self._length = length

    def __len__(self) -> int:
        return self._length


def starved(step: float = 0.01) -> LoaderTimes:
    times = LoaderTimes({})
    for _ in range(31):
        times.add_wait(0.01, 0.0, 0.0)
        times.add_step(step, 0.0, ahead=False)
    return times


def collect(iterator: Any, batch: Any = None, times: LoaderTimes | None = None) -> tuple[int, bool]:
    """Return how many batches were collected, and whether the workers are idle."""
    batch = np.zeros(1000) if batch is None else batch
    held: deque[Any] = deque()
    idle = Ahead(times or starved()).collect(iterator, lambda _: batch, held)
    return len(held), idle


@pytest.fixture(scope="module")
def data() -> Any:
    """Return the module that has PyTorch's samplers."""
    return pytest.importorskip("torch.utils.data", reason="the samplers are PyTorch's")


@pytest.fixture(scope="module")
def generator(data: Any) -> Any:
    return sys.modules["torch"].Generator()


@pytest.fixture(scope="module")
def in_order(data: Any) -> Iterator:
    """Return an iterator whose samples come in their order."""
    return Iterator(data.SequentialSampler(range(9)))


def test_ahead_collects_where_samplers_have_drawn_beforehand(data: Any, generator: Any) -> None:
    for sampler in (
        data.SequentialSampler(range(9)),
        data.RandomSampler(range(9)),
        data.RandomSampler(range(9), generator=generator),
        data.RandomSampler(range(9), replacement=True),
        data.SubsetRandomSampler(range(9)),
        data.WeightedRandomSampler([1.0, 2.0], 9),
    ):
        assert collect(Iterator(data.BatchSampler(sampler, 4, drop_last=False))) == (8, True), sampler
        assert collect(Iterator(sampler)) == (8, True), sampler


def test_ahead_collects_nothing_where_samplers_may_draw_as_they_go(data: Any, generator: Any) -> None:
    class Mine(data.SequentialSampler):  # type: ignore[misc]
        pass

    class Pairs(data.BatchSampler):  # type: ignore[misc]
        pass

    for sampler in (Mine(range(9)), [1, 2, 3], data.RandomSampler(range(9), replacement=True, generator=generator)):
        assert collect(Iterator(data.BatchSampler(sampler, 4, drop_last=False))) == (0, False), sampler
        assert collect(Iterator(sampler)) == (0, False), sampler
    assert collect(Iterator(Pairs(data.SequentialSampler(range(9)), 2, drop_last=False))) == (0, False)


def test_ahead_collects_nothing_where_an_iteration_is_about_to_end(data: Any) -> None:
    assert collect(Iterator(data.SequentialSampler(range(9)), length=55)) == (0, False)


@pytest.mark.parametrize(
    "batch", [np.zeros(2_000_000), [object()], {"words": ["a", "b"]}, [np.zeros(1)] * 17, "text"], ids=type
)
def test_ahead_collects_no_batches_that_are_large_or_unknown(batch: Any, in_order: Iterator) -> None:
    # The first one is looked at. It is held until the loop gets it.
    assert collect(in_order, batch) == (1, False)


def test_ahead_collects_batches_of_small_arrays(in_order: Iterator) -> None:
    torch = sys.modules["torch"]
    for batch in ([np.zeros(9), {"a": (np.zeros(9),)}], torch.zeros(9), (torch.zeros(3), [1, 2])):
        assert collect(in_order, batch) == (8, True)


def test_ahead_collects_nothing_for_a_loop_that_does_not_wait(in_order: Iterator) -> None:
    assert collect(in_order, times=starved(step=1.0)) == (0, False)


def test_ahead_gives_what_is_raised_in_its_turn(in_order: Iterator) -> None:
    answers = iter([np.zeros(3), np.zeros(3), KeyError(7)])

    def pull(_: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    held: deque[Any] = deque()
    assert Ahead(starved()).collect(in_order, pull, held)
    assert [type(error) for _, error in held] == [type(None), type(None), KeyError]


def test_ahead_collects_once_and_again_after_four_times_as_many_steps(in_order: Iterator) -> None:
    times = starved()
    ahead = Ahead(times)
    counts = []
    for _ in range(400):
        held: deque[Any] = deque()
        ahead.collect(in_order, lambda _: np.zeros(3), held)
        counts.append(len(held))
        times.add_wait(0.01, 0.0, 0.0)
        times.add_step(0.01, 0.0, ahead=bool(held))
    assert sum(map(bool, counts)) == 2


BLOCK = zlib.compress(np.random.default_rng(0).integers(0, 9, 3_000_000, dtype=np.uint8).tobytes(), 1)


@pytest.fixture
def by_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls be timed by the CPU time of the thread, which other programs do not change."""
    monkeypatch.setattr("spdl.cli._advise._probe.call_times.perf_counter", time.thread_time)


def compute() -> None:
    total = 0
    for number in range(400_000):
        total += number * number


def watch(*calls: Callable[[], None]) -> CallTimes:
    times = CallTimes()
    assert times.begin(0.0)
    for call in calls:
        call()
    times.end()
    assert sys.getprofile() is None
    return times


@pytest.mark.usefixtures("by_cpu")
def test_call_times_of_decoding_in_c() -> None:
    times = watch(lambda: void(zlib.decompress(BLOCK)))
    assert set(times.by_kind) == {"decoding"}
    assert times.by_kind["decoding"] > 0.8 * times.seconds


def test_call_times_of_waiting() -> None:
    # A busy machine may pause the thread for longer than it waits, but not each time.
    for _ in range(50):
        times = watch(lambda: time.sleep(0.03))
        assert set(times.by_kind) == {"waiting"}
        if times.by_kind["waiting"] > 0.8 * times.seconds:
            break
    else:
        pytest.fail("most of the time was never told to be waiting")


def void(_: object) -> None:
    pass


@pytest.mark.usefixtures("by_cpu")
def test_call_times_of_python_code_are_of_no_kind() -> None:
    times = watch(compute)
    assert times.by_kind == {}
    assert times.seconds > 0.005


@pytest.mark.usefixtures("by_cpu")
def test_call_times_of_pictures(tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"
    pixels = np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((1500, 1500)).save(file)

    def load() -> None:
        with Image.open(file) as image:
            image.load()

    load()
    times = watch(load)
    assert times.by_kind["decoding"] > 0.6 * times.seconds
    assert 0 < times.by_kind["reading"] < times.by_kind["decoding"]


def test_call_times_of_files_in_memory_are_no_reading() -> None:
    def read() -> None:
        for _ in range(20):
            io.BytesIO(BLOCK).read()

    times = watch(read)
    assert times.by_kind == {}


@pytest.mark.usefixtures("by_cpu")
def test_call_times_end_with_exceptions() -> None:
    def fail() -> None:
        with pytest.raises(zlib.error):
            zlib.decompress(b"no")

    times = watch(fail, compute)
    assert times.by_kind.get("decoding", 0.0) < 0.2 * times.seconds


@pytest.mark.usefixtures("by_cpu")
def test_call_times_leave_out_the_cost_of_watching() -> None:
    def nothing() -> None:
        pass

    def call_often() -> None:
        for _ in range(15_000):
            nothing()

    def counted() -> float:
        began = time.thread_time()
        return watch(call_often).seconds / (time.thread_time() - began)

    assert min(counted() for _ in range(20)) < 0.6


def test_call_times_end_after_many_calls() -> None:
    times = CallTimes()
    assert times.begin(perf_counter())
    for _ in range(50_000):
        len("")
        perf_counter()
    assert sys.getprofile() is None
    assert times.seconds > 0
    # The next one is due only later.
    assert not times.begin(0.0)


def test_call_times_leave_the_profiler_of_others_alone() -> None:
    def mine(*_: object) -> None:
        pass

    sys.setprofile(mine)
    try:
        times = CallTimes()
        assert not times.begin(perf_counter())
        times.end()
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)


def test_a_trial_goes_on_in_the_sampler_where_the_last_turn_ended(data: Any) -> None:
    sampler = data.BatchSampler(range(10), 2, drop_last=False)
    onward = Onward(sampler)
    turn = iter(onward)
    assert [next(turn), next(turn)] == [[0, 1], [2, 3]]
    del turn
    assert list(onward) == [[4, 5], [6, 7], [8, 9]]
    assert list(onward) == list(sampler)
    assert len(onward) == len(sampler)
    assert list(Onward([])) == []


def test_time_without_a_core_counts_as_part_of_the_steps() -> None:
    times = LoaderTimes({})
    times.add_step(9.0, 1.0, ahead=False)
    for _ in range(2):
        times.add_wait(0.3, 0.1, 0.1)
        times.add_step(1.0, 0.5, ahead=False)
        times.add_coreless(0.2)
    assert (times.step_seconds, times.wait_seconds) == pytest.approx((2.2, 0.4))
    assert times.coreless_seconds == pytest.approx(0.6)
    times.leave_out(1)
    times.add_coreless(5.0)
    assert times.coreless_seconds == pytest.approx(0.6)
