"""What stores do while a pipeline runs is in its statistics, and the verdict says where reading goes wrong."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from tests.store.range_server import running

from spdl._counted import counted_now, show_counters
from spdl.pipeline import Pipeline, PipelineBuilder, StoreCounts
from spdl.pipeline._metrics.stores import trouble
from spdl.store import CachedStore, HTTPStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 40


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as url:
        yield url


def reading(get: Any, fault: str = "") -> Pipeline[Any]:
    paths = [f"{fault}{'/' if fault else ''}1000/{number}" for number in range(COUNT)]
    return PipelineBuilder().add_source(paths).pipe(get, concurrency=8, name="get").add_sink().build(num_threads=8)


def of(pipeline: Pipeline[Any], name: str) -> StoreCounts:
    (found,) = [each for each in pipeline.statistics().stores if each.name == name]
    return found


def test_what_is_counted_is_from_the_start_to_the_end(url: str) -> None:
    store = HTTPStore(url)
    store.get("1000/before")

    def get(path: str) -> Any:  # Nobody sees from outside which store it uses.
        return store.get(path)

    pipeline = reading(get)
    assert pipeline.statistics().stores == ()
    with pipeline.auto_stop():
        assert len(list(pipeline)) == COUNT
    store.get("1000/after")
    counts = of(pipeline, repr(store)).counts
    assert counts["requests"] == counts["answers"] == COUNT
    assert counts["bytes"] == COUNT * 1000
    assert counts["retries"] == 0
    assert counts.keys() >= {"hedges", "throttled", "waited_seconds"}
    assert store.statistics().answers == COUNT + 2
    store.close()


def test_a_store_made_later_counts_and_an_idle_one_does_not(url: str) -> None:
    idle = HTTPStore(f"{url}/idle")
    stores: list[HTTPStore] = []

    def get(path: str) -> Any:
        if not stores:
            stores.append(HTTPStore(f"{url}/./"))
        return stores[0].get(path)

    pipeline = PipelineBuilder().add_source(["1000/a", "1000/b"]).pipe(get).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert len(list(pipeline)) == 2
    assert of(pipeline, repr(stores[0])).counts["answers"] == 2
    assert repr(idle) not in [each.name for each in pipeline.statistics().stores]
    stores[0].close()


def test_the_verdict_names_what_was_tried_again(url: str) -> None:
    store = HTTPStore(url)
    pipeline = reading(store.get, "@503*1")
    with pipeline.auto_stop():
        assert len(list(pipeline)) == COUNT
    counts = of(pipeline, repr(store)).counts
    assert counts["requests"] == 2 * COUNT
    assert counts["throttled"] == counts["retries"] == COUNT
    assert pipeline.statistics().bottleneck.endswith(
        f" Reading is slowed down: 50 % of the 80 requests of {store!r} were tried again; 40 times the server was too "
        "busy (429, 503)."
    )
    store.close()


def test_hits_of_a_cache(url: str, tmp_path: Path) -> None:
    store = HTTPStore(url)
    cached = CachedStore(store, tmp_path, 10**8)
    for expected in ({"misses": COUNT, "disk_hits": 0}, {"misses": 0, "disk_hits": COUNT}):
        pipeline = reading(cached.get)
        with pipeline.auto_stop():
            assert len(list(pipeline)) == COUNT
        assert of(pipeline, repr(cached)).counts.items() >= expected.items()
    store.close()


def test_no_lock_is_taken(url: str) -> None:
    # A signal handler may ask in the middle of anything that the store does.
    store = HTTPStore(url)
    pipeline = reading(store.get)
    with pipeline.auto_stop(), store._books._lock:
        pipeline.statistics()
    store.close()


def test_who_is_gone_is_forgotten() -> None:
    class Counting:
        def _counters(self) -> dict[str, float]:
            return {"requests": 1}

    counting = Counting()
    show_counters(counting, "mine")
    assert "mine" in [each.name for each in counted_now().values()]
    del counting
    gc.collect()
    assert "mine" not in [each.name for each in counted_now().values()]


AGAIN = "of the 1,000 requests of S were tried again"
TWICE = "5 % of the 1,000 requests of S were so late that they were sent twice."


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, ""),
        ({"requests": 19, "retries": 19, "cut": 19}, ""),
        ({"requests": 1000, "retries": 29, "cut": 29}, ""),
        ({"requests": 1000, "retries": 30, "cut": 20, "late": 10}, f"3 % {AGAIN}; 20 times the answer was cut."),
        ({"requests": 1000, "retries": 50, "late": 1}, f"5 % {AGAIN}; 1 time nothing was heard for too long."),
        ({"requests": 1000, "retries": 50}, f"5 % {AGAIN}."),
        ({"requests": 1000, "hedges": 29}, ""),
        ({"requests": 1000, "hedges": 50}, TWICE),
        ({"requests": 1000, "hedges": 50, "retries": 40, "cut": 40}, TWICE),
        ({"misses": 100, "uncached": 9}, ""),
    ],
)
def test_what_is_trouble(counts: dict[str, float], said: str) -> None:
    assert trouble([StoreCounts("S", counts)]) == (f" Reading is slowed down: {said}" if said else "")
    assert trouble([StoreCounts("fine", {"requests": 1000, "answers": 1000}), StoreCounts("S", counts)]).endswith(said)


def test_a_cache_that_keeps_nothing() -> None:
    said = trouble([StoreCounts("S", {"misses": 100, "uncached": 10})])
    assert "S could not keep 10 % of the 100 objects that it read" in said


def test_the_worst_is_spoken_of() -> None:
    some, worst = ({"requests": 100.0, "retries": retries, "cut": retries} for retries in (10.0, 30.0))
    assert "requests of worst were" in trouble([StoreCounts("some", some), StoreCounts("worst", worst)])
