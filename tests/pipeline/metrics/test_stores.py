"""What stores do while a pipeline runs is in its statistics, and the verdict says where reading goes wrong."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from tests.store.range_server import running

from spdl.pipeline import Pipeline, PipelineBuilder, StoreCounts
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


def test_a_store_that_is_gone_is_forgotten(url: str) -> None:
    def get(path: str) -> Any:
        store = HTTPStore(f"{url}/./././")
        try:
            return store.get(path)
        finally:
            store.close()

    pipeline = reading(get)
    with pipeline.auto_stop():
        assert len(list(pipeline)) == COUNT
        gc.collect()
        names = [each.name for each in pipeline.statistics().stores]
    assert repr(HTTPStore(f"{url}/./././")) not in names
