"""Test the rule that tells whether ops hold the GIL, with made-up measurements and with real ops."""

from __future__ import annotations

import asyncio
import hashlib
import time
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.pipeline.support import FREE_THREADED

from spdl.pipeline import PipelineBuilder, ProfileResult, ProfileStats, profile_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONCURRENCIES = (32, 16, 8, 4, 1)


def stats(
    concurrency: int,
    *,
    rate: float,
    share: float,
    runnable: float | None,
    waiting: float | None = 0.0,
    seconds: float = 1.0,
    cores: float = 1.0,
) -> ProfileStats:
    """Return statistics of ops for which ``share`` is the CPU time's share of their time when one runs alone."""
    num = max(1, round(rate * seconds))
    busy = seconds if concurrency == 1 else concurrency * seconds
    cpu = share * busy if concurrency == 1 else cores * seconds
    return ProfileStats(concurrency, rate, 0.0, num, num, 0, seconds, busy, cpu, runnable, waiting)


def computing(runnable: Callable[[int], float | None], **kwargs: Any) -> ProfileResult:
    """Return the profile of ops that do nothing but compute."""
    return ProfileResult(
        "op", [stats(it, rate=1000, share=1.0, runnable=runnable(it), **kwargs) for it in CONCURRENCIES]
    )


noise = st.floats(0, 0.6)


@given(noise, noise, st.floats(0.05, 100))
def test_one_runnable_thread_at_a_time_is_the_gil(alone: float, together: float, seconds: float) -> None:
    """Threads of the engine may wait for a core, too."""
    result = computing(lambda it: 1.0 + (alone if it == 1 else together), seconds=seconds)
    assert result.gil == "holds"


@given(st.floats(0.75, 1.1), st.floats(0, 0.2), st.floats(0.05, 100))
def test_all_threads_runnable_is_no_gil(held_up: float, alone: float, seconds: float) -> None:
    """Threads on a core count like those that wait for one, so the number of cores does not matter."""
    result = computing(lambda it: 1.0 + alone if it == 1 else held_up * it, seconds=seconds)
    assert result.gil == "releases"


def test_in_between() -> None:
    assert computing(lambda it: 1.0 if it == 1 else 2.3).gil == "partly"


def test_what_the_engine_s_own_threads_do_is_left_out() -> None:
    assert computing(lambda it: 1.6 if it == 1 else 2.3).gil == "holds"


@pytest.mark.parametrize("waiting", [0.0, 0.5])
def test_a_measurement_that_got_no_core_proves_nothing(waiting: float) -> None:
    """Other measurements show that many threads could use cores at a time."""
    assert computing(lambda it: 1.0 if it <= 4 else 0.7 * it, waiting=waiting).gil == "unknown"


@pytest.mark.parametrize(
    ("runnable", "verdict"), [(1.4, "holds"), (1.7, "unknown"), (2.5, "unknown"), (3.9, "releases")]
)
def test_a_busy_machine_shows_clear_cases_only(runnable: float, verdict: str) -> None:
    assert computing(lambda it: 1.0 if it == 1 else runnable, waiting=0.5).gil == verdict


def test_a_busy_machine_and_ops_that_also_wait() -> None:
    """Each time an op wakes up, it waits for a core, without the GIL."""
    measured = [stats(it, rate=1000, share=0.5, runnable=float(it), waiting=0.5) for it in CONCURRENCIES]
    assert ProfileResult("op", measured).gil in ("unknown", "releases")
    measured[-1] = stats(1, rate=1000, share=0.3, runnable=1.0, waiting=0.5)
    assert ProfileResult("op", measured).gil == "unknown"


@given(st.floats(0, 0.19), st.floats(1.6, 32), st.floats(0, 32), st.floats(0, 20))
def test_ops_that_do_not_compute_wait(share: float, gains: float, runnable: float, waiting: float) -> None:
    """However many threads are runnable, waking up does not count as computing."""
    assume(waiting <= runnable)
    several = [
        stats(it, rate=gains * 100, share=share, runnable=runnable, waiting=waiting) for it in CONCURRENCIES[:-1]
    ]
    alone = stats(1, rate=100, share=share, runnable=share)
    assert ProfileResult("op", [*several, alone]).gil == "waits"


@given(st.floats(0, 0.19), st.floats(0.1, 1.4))
def test_ops_that_do_not_compute_and_do_not_overlap_take_turns(share: float, gains: float) -> None:
    several = [stats(it, rate=gains * 100, share=share, runnable=share) for it in CONCURRENCIES[:-1]]
    alone = stats(1, rate=100, share=share, runnable=share)
    assert ProfileResult("op", [*several, alone]).gil == "takes turns"


@pytest.mark.parametrize(("cores", "verdict"), [(1.0, "unknown"), (1.3, "unknown"), (1.5, "releases"), (8, "releases")])
def test_where_the_system_tells_cpu_time_only(cores: float, verdict: str) -> None:
    assert computing(lambda _: None, waiting=None, cores=cores).gil == verdict


@pytest.mark.parametrize("concurrencies", [(), (1,), (4,), (32, 16, 8, 4)])
def test_too_few_measurements(concurrencies: tuple[int, ...]) -> None:
    measured = [stats(it, rate=100, share=1.0, runnable=1.0) for it in concurrencies]
    assert ProfileResult("op", measured).gil == "unknown"


@pytest.mark.parametrize("share", [0.05, 1.0])
@pytest.mark.parametrize("seconds", [0.001, 0.04])
def test_measurements_that_are_too_short(seconds: float, share: float) -> None:
    """In so little time threads hardly begin, so one of them is runnable at a time whatever the ops do."""
    measured = [stats(it, rate=1000, share=share, runnable=1.0, seconds=seconds) for it in CONCURRENCIES]
    assert ProfileResult("op", measured).gil == "unknown"
    # One of each kind is enough, however.
    measured += [stats(it, rate=1000, share=share, runnable=1.0) for it in (1, 4)]
    assert ProfileResult("op", measured).gil == ("holds" if share == 1 else "takes turns")


def test_fewer_items_than_threads() -> None:
    """Two items occupy no more than two threads."""
    measured = [stats(it, rate=2, share=1.0, runnable=min(2.0, it)) for it in CONCURRENCIES]
    assert ProfileResult("op", measured).gil == "unknown"


@pytest.mark.parametrize("runnable", [1.0, 2.3, 4.0])
def test_many_results_of_a_single_item(runnable: float) -> None:
    """A generator has only one thread at a time, however many results it has."""
    measured = [
        ProfileStats(it, 100, 0.0, 1, 100, 0, 1.0, 1.0, 1.0, 1.0 if it == 1 else runnable, 0.0, 1)
        for it in CONCURRENCIES
    ]
    assert ProfileResult("op", measured).gil == "unknown"


def test_generators_that_never_end() -> None:
    """None of their items is finished, but each thread has one."""
    measured = [ProfileStats(it, 100, 0.0, 0, 100, 0, 1.0, it, it, it, 0.0, it) for it in CONCURRENCIES]
    assert ProfileResult("op", measured).gil == "releases"


@given(st.permutations(CONCURRENCIES), st.sampled_from([1.0, 2.3, 4.0]))
def test_the_order_of_measurements_does_not_matter(order: list[int], runnable: float) -> None:
    measured = {it: stats(it, rate=1000, share=1.0, runnable=1.0 if it == 1 else runnable) for it in CONCURRENCIES}
    ordered = ProfileResult("op", [measured[it] for it in order])
    assert ordered.gil == ProfileResult("op", list(measured.values())).gil


def test_waiting_for_a_core_is_no_waiting() -> None:
    """Ops that get a core for a third of the time still count as computing."""
    alone = ProfileStats(1, 10, 0.0, 10, 10, 0, 1.0, 1.0, 0.33, 1.0, 0.67)
    assert ProfileResult("op", [alone]).cpu_share == pytest.approx(1.0)


BLOCK = bytes(1 << 20)
NUMBERS = np.random.default_rng(0).random(300_000)


def count(_: int) -> int:
    return sum(range(20_000))


def digest(_: int) -> bytes:
    return hashlib.sha256(BLOCK).digest()


def digest_once(box: list[bytes]) -> bytes:
    """Use the item up."""
    return hashlib.sha256(box.pop()).digest()


def compress(_: int) -> bytes:
    return zlib.compress(BLOCK[:200_000])


def root(_: int) -> Any:
    return np.sqrt(NUMBERS).sum()


def nap(_: int) -> int:
    time.sleep(0.01)
    return 1


async def doze(_: int) -> int:
    await asyncio.sleep(0.01)
    return 1


async def count_on_the_loop(_: int) -> int:
    return sum(range(20_000))


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "possible"),
    [
        # On a busy machine the verdict may be "unknown".
        pytest.param(count, {"holds", "unknown"}, marks=pytest.mark.skipif(FREE_THREADED, reason="there is no GIL")),
        (digest, {"releases", "partly", "unknown"}),
        (compress, {"releases", "partly", "unknown"}),
        (root, {"releases", "partly", "unknown"}),
        (nap, {"waits", "unknown"}),
        (doze, {"waits", "unknown"}),
        # The event loop has one thread, so never more than one is runnable.
        (count_on_the_loop, {"holds", "unknown"}),
    ],
    ids=lambda it: getattr(it, "__name__", None),
)
def test_real_ops(op: Callable[[int], Any], possible: set[str]) -> None:
    # Other processes' work may spoil a measurement, but hardly three in a row.
    found = []
    for _ in range(3):
        (result,) = profile_pipeline(PipelineBuilder().add_source(range(100)).pipe(op).add_sink().get_config())
        if result.gil in possible:
            return
        found.append((result.gil, result.stats))
    pytest.fail(str(found))


@pytest.mark.long
@pytest.mark.parametrize("num_items", [10, 62, 130])
def test_a_few_quick_calls_prove_nothing(num_items: int) -> None:
    boxes = [[BLOCK[:100_000]] for _ in range(num_items)]
    (result,) = profile_pipeline(PipelineBuilder().add_source(boxes).pipe(digest_once).add_sink().get_config())
    assert result.gil == "unknown", result.stats


def digests_once(box: list[bytes]) -> Iterator[bytes]:
    """Use the item up, and have many results of it."""
    data = box.pop()
    for _ in range(20):
        yield hashlib.sha256(data).digest()


@pytest.mark.usefixtures("patient")
def test_a_single_generator_for_several_threads_proves_nothing() -> None:
    # One is tried, and each measurement gets one.
    boxes = [[BLOCK * 4] for _ in range(6)]
    (result,) = profile_pipeline(PipelineBuilder().add_source(boxes).pipe(digests_once).add_sink().get_config())
    assert [(it.num_given, it.num_outputs) for it in result.stats] == [(1, 20)] * 5
    assert result.gil == "unknown", result.stats
