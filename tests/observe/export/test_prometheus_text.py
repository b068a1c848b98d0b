import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.observe.export.exposition import parse
from tests.observe.export.observed import stage, told

from spdl.observe import PrometheusFile, PrometheusServer, prometheus_text
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = st.text(st.characters(exclude_categories=["Cs"]))


def test_a_pipelines_counts_are_in_it() -> None:
    pipeline = (
        PipelineBuilder()
        .add_source(range(10))
        .pipe(lambda x: 12 // (x - 3), name="divide", concurrency=2)
        .pipe(lambda x: x or None, name="keep")
        .add_sink(4)
        .build(num_threads=2)
    )
    with pipeline.auto_stop():
        results = list(pipeline)

    found = parse(prometheus_text({"train": pipeline}))

    by_stage = {
        name: {sample.labels.get("stage"): sample.value for sample in family.samples} for name, family in found.items()
    }
    assert by_stage["spdl_stage_items_total"] == {"src": 10, "divide": 9, "keep": 9, "sink": len(results)}
    assert by_stage["spdl_stage_failures_total"] == {"src": 0, "divide": 1, "keep": 0}
    assert by_stage["spdl_stage_drops_total"] == {"src": 0, "divide": 0, "keep": 9 - len(results)}
    assert by_stage["spdl_stage_concurrency"] == {"src": 1, "divide": 2, "keep": 1}
    assert by_stage["spdl_queue_limit"]["sink"] == 4
    assert by_stage["spdl_pipeline_in_flight"] == {None: 0}
    assert by_stage["spdl_pipeline_elapsed_seconds"][None] == pipeline.statistics().elapsed
    assert 0 < by_stage["spdl_pipeline_consumer_wait_seconds_total"][None] <= pipeline.statistics().elapsed
    directions = [sample.labels["direction"] for sample in found["spdl_stage_wait_seconds_total"].samples]
    assert directions == ["input", "output", "order"] * 3
    # Nothing is weighed, so no memory is told.
    assert not found["spdl_pipeline_memory_usage_bytes"].samples


def test_the_memory_of_items_under_a_budget() -> None:
    builder = PipelineBuilder().add_source(range(5)).pipe(lambda _: bytes(1000), name="read").add_sink(5)
    pipeline = builder.build(num_threads=1, max_bytes=3000)
    with pipeline.auto_stop():
        pipeline.get_item()
        found = parse(prometheus_text({"train": pipeline}))
        seen = {name: family.samples[0].value for name, family in found.items() if "memory" in name}
    assert 0 <= seen.pop("spdl_pipeline_memory_usage_bytes") <= 3000
    assert seen.pop("spdl_pipeline_memory_limit_bytes") == 3000
    assert 0 <= seen.pop("spdl_pipeline_memory_wait_seconds_total") <= pipeline.statistics().seconds_short_of_bytes
    assert not seen


def test_durations_are_a_histogram() -> None:
    def wait(item: int) -> int:
        time.sleep(0.02 if item == 7 else 0.002)
        return item

    pipeline = PipelineBuilder().add_source(range(10)).pipe(wait, concurrency=2).add_sink().build(num_threads=2)
    with pipeline.auto_stop():
        list(pipeline)

    samples = parse(prometheus_text(pipeline))["spdl_stage_duration_seconds"].samples

    assert {sample.labels["stage"] for sample in samples} == {"wait"}
    bounds = [float(sample.labels["le"]) for sample in samples if sample.suffix == "_bucket"]
    assert bounds == sorted(set(bounds))
    buckets = [sample.value for sample in samples if sample.suffix == "_bucket"]
    assert buckets == sorted(buckets)
    found = {sample.labels.get("le", sample.suffix): sample.value for sample in samples}
    assert found["_count"] == found["+Inf"] == found["64.0"] == 10
    assert found[str(4.0**-5)] == 0
    assert found[str(4.0**-3)] <= 9
    assert 0.038 <= found["_sum"] == pipeline.statistics().stages[1].busy_seconds


@given(st.lists(NAMES, max_size=3), st.lists(NAMES, min_size=1, max_size=3, unique=True))
@example(['a"b', "a\\", "\\n", "a\nb"], ["a", 'b"}', "{"])
@example(["same", "same"], [""])
def test_whatever_things_are_called(names: list[str], pipelines: list[str]) -> None:
    stages = [stage("src"), *(stage(name, num_completed=number) for number, name in enumerate(names)), stage("sink")]
    text = prometheus_text(dict.fromkeys(pipelines, told(*stages)))

    samples = parse(text)["spdl_stage_items_total"].samples

    expected = [
        {"pipeline": pipeline, "stage": each.name, "stage_index": str(index)}
        for pipeline in pipelines
        for index, each in enumerate(stages)
    ]
    assert [sample.labels for sample in samples] == expected
    assert [sample.value for sample in samples] == [each.num_completed for each in stages] * len(pipelines)


def test_half_a_character_is_replaced() -> None:
    text = prometheus_text(told(stage("a\ud800"), stage("sink")))

    assert 'stage="a?"' in text
    text.encode()


def test_metrics_have_their_head_without_any_pipeline() -> None:
    assert {family.kind for family in parse(prometheus_text({})).values()} == {"counter", "gauge", "histogram"}


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    observed = told(stage("sink"))
    makers: dict[str, Callable[[], object]] = {
        "prometheus_text": lambda: prometheus_text(observed),
        "PrometheusServer": lambda: PrometheusServer(observed),
        "PrometheusFile": lambda: PrometheusFile(observed, tmp_path / "spdl.prom"),
    }
    for who, make in makers.items():
        with pytest.raises(ModuleNotFoundError) as caught:
            make()
        assert str(caught.value) == f"{who} needs the package prometheus_client: pip install 'spdl-turbo[prometheus]'"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [None, 3, {"a": 3}, {3: told(stage("sink"))}, [told(stage("sink"))]])
def test_what_is_no_pipeline_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"`pipelines` must be a pipeline, a loader, or a mapping"):
        prometheus_text(wrong)  # type: ignore[arg-type]
