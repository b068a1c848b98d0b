"""What stores do while a pipeline runs is in its statistics, and the verdict says where reading goes wrong."""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.running import call
from tests.store.range_server import running

from spdl.observe import prometheus_text
from spdl.pipeline import Pipeline, PipelineBuilder, StoreCounts
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from spdl.store import CachedStore, HTTPStore, Part, read_ahead

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
    with pipeline.auto_stop(), store._request_counters._lock:
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


class Get:
    """Reads an object of 1,000 bytes, in whatever process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, number: int) -> int:
        store = HTTPStore(self.url)
        length = len(bytes(store.get(f"1000/{number}")))
        store.close()
        return length


def nothing(number: int) -> int:
    return number


@pytest.mark.parametrize("where", ["threads", "executor", "pool", "region"])
def test_bytes_read_are_those_of_the_stage_wherever_it_runs(url: str, where: str) -> None:
    prometheus = pytest.importorskip("prometheus_client.parser")
    executors: dict[str, Any] = {"executor": ThreadPoolExecutor(2), "pool": ProcessPoolExecutor(2)}
    builder: Any = PipelineBuilder().add_source(range(COUNT))
    if where == "region":
        builder = builder.to(ProcessPoolExecutorConfig(2)).pipe(Get(url), name="get").to(MAIN_PROCESS)
    else:
        builder = builder.pipe(Get(url), name="get", concurrency=2, executor=executors.get(where))
    pipeline = builder.pipe(nothing, name="nothing").add_sink().build(num_threads=3)
    with pipeline.auto_stop():
        assert list(pipeline) == [1000] * COUNT
    for executor in executors.values():
        executor.shutdown()
    told = {stage.name: stage.bytes_read for stage in pipeline.statistics().stages}
    assert told == {"src": 0, "get": COUNT * 1000, "nothing": 0, "sink": 0}
    read = {
        sample.labels["stage"]: sample.value
        for family in prometheus.text_string_to_metric_families(prometheus_text(pipeline))
        for sample in family.samples
        if sample.name == "spdl_stage_read_bytes_total"
    }
    assert read == {"src": 0, "get": COUNT * 1000, "nothing": 0}


@pytest.mark.parametrize("ahead", [False, True])
def test_bytes_that_a_source_reads_are_its_own(url: str, *, ahead: bool) -> None:
    store = HTTPStore(url)
    parts = [Part(f"1000/{number}", 0, 500) for number in range(COUNT)]

    def objects() -> Iterator[int]:
        read = read_ahead(store, parts) if ahead else (store.get_ranges(path, [0], [500])[0] for path, *_ in parts)
        yield from (len(bytes(part)) for part in read)

    pipeline = PipelineBuilder().add_source(objects()).pipe(nothing).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert sum(pipeline) == COUNT * 500
    source, op, _ = pipeline.statistics().stages
    assert (source.bytes_read, op.bytes_read) == (COUNT * 500, 0)
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory")
@pytest.mark.parametrize("where", ["threads", "region"])
def test_top_shows_bytes_read(url: str, where: str) -> None:
    builder: Any = PipelineBuilder().add_source(itertools.count())
    if where == "region":
        builder = builder.to(ProcessPoolExecutorConfig(1)).pipe(Get(url), name="get").to(MAIN_PROCESS)
    else:
        builder = builder.pipe(Get(url), name="get")
    with builder.add_sink(2).build(num_threads=1).auto_stop() as pipeline:
        # Workers take a while to begin.
        pipeline.get_item()
        reader = threading.Thread(target=lambda: [None for _ in pipeline])
        reader.start()
        shown = call("top", str(os.getpid()), "--once", "--interval", "1").stdout
        (seen,) = json.loads(call("top", str(os.getpid()), "--once", "--json").stdout)
        pipeline.stop()
        reader.join()
    assert "read/s" in shown
    (stage,) = seen["stages"]
    assert stage["per_second"]["bytes_read"] == pytest.approx(1000 * stage["rate"], rel=0.5)
    assert stage["rate"] > 0
