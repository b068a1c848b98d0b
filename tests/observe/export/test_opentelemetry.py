import sys
from typing import Any

import pytest
from tests.observe.export.observed import Told, stage, told

from spdl.observe import OpenTelemetryExport
from spdl.pipeline import PipelineBuilder

Values = dict[tuple[object, ...], float]


class Collected:
    """A meter provider of OpenTelemetry's own, and what it collects."""

    def __init__(self) -> None:
        sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason="needs the package opentelemetry-sdk")
        export = pytest.importorskip("opentelemetry.sdk.metrics.export")
        self.reader: Any = export.InMemoryMetricReader()
        self.provider: Any = sdk.MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def values(self, name: str) -> Values:
        return {
            tuple(value for _, value in sorted(point.attributes.items())): point.value
            for point in self.metrics()[name].data.data_points
        }


@pytest.fixture
def collected() -> Any:
    found = Collected()
    yield found
    found.provider.shutdown()


def test_a_pipelines_counts_are_collected(collected: Collected) -> None:
    pipeline = PipelineBuilder().add_source(range(10)).pipe(lambda x: 12 // (x - 3), name="divide").add_sink().build()
    with OpenTelemetryExport({"train": pipeline}, collected.provider), pipeline.auto_stop():
        list(pipeline)
        # pipeline's name, stage's index, stage's name
        assert collected.values("spdl.stage.items") == {
            ("train", 0, "src"): 10,
            ("train", 1, "divide"): 9,
            ("train", 2, "sink"): 9,
        }
        waits = collected.values("spdl.stage.wait")
        assert {direction for direction, *_ in waits} == {"input", "output", "order"}
        assert collected.values("spdl.pipeline.in_flight") == {("train",): 0}


def test_names_units_and_kinds(collected: Collected) -> None:
    with OpenTelemetryExport(told(stage("src"), stage("sink", queue_capacity=3)), collected.provider):
        metrics = collected.metrics()

    units = {name: metric.unit for name, metric in metrics.items()}
    assert units["spdl.stage.items"] == "{item}"
    assert units["spdl.stage.busy"] == units["spdl.stage.wait"] == units["spdl.pipeline.consumer.wait"] == "s"
    assert units["spdl.queue.size"] == units["spdl.queue.limit"] == "{item}"
    items = metrics["spdl.stage.items"].data
    assert type(items).__name__ == "Sum"
    assert items.is_monotonic
    assert type(metrics["spdl.queue.size"].data).__name__ == "Gauge"
    assert all(metric.description for metric in metrics.values())


def test_pipelines_come_and_go(collected: Collected) -> None:
    pipelines: dict[str, Told] = {"first": told(stage("sink", num_completed=1))}
    with OpenTelemetryExport(pipelines, collected.provider):
        assert collected.values("spdl.stage.items") == {("first", 0, "sink"): 1}
        pipelines["second"] = told(stage("sink", num_completed=2))
        assert collected.values("spdl.stage.items") == {("first", 0, "sink"): 1, ("second", 0, "sink"): 2}
    assert "spdl.stage.items" not in collected.metrics()


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"^OpenTelemetryExport needs the package opentelemetry: pip install 'spdl-turbo\[opentelemetry\]'$",
    ):
        OpenTelemetryExport(told(stage("sink")))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="`meter_provider` must be a MeterProvider"):
        OpenTelemetryExport(told(stage("sink")), 3)
    with pytest.raises(TypeError, match="`pipelines`"):
        OpenTelemetryExport(3)  # type: ignore[arg-type]
