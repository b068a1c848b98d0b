"""Pipelines and Ray Data, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ray.work import config

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Pipe
from spdl.ray import PipelineStage, RayDataSource, ray_datasource
from spdl.source import EpochSampler

pytestmark = [
    pytest.mark.ray,
    pytest.mark.usefixtures("cluster"),
    pytest.mark.timeout(180),
    # Ray Data's own.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def data(cluster: str) -> Any:
    module = pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'spdl-turbo[ray]'")
    module.DataContext.get_current().enable_progress_bars = False
    return module


def test_a_pipeline_is_read_as_a_dataset(data: Any) -> None:
    def make(x: int) -> dict[str, Any] | None:
        return None if x % 5 == 0 else {"x": x, "pixels": np.full((2, 3), x, np.int32), "name": f"{x}.jpg"}

    source = ray_datasource(config(range(103), make, concurrency=3), rows_per_task=20, rows_per_block=7)
    rows = data.read_datasource(source).take_all()
    assert sorted(row["x"] for row in rows) == [x for x in range(103) if x % 5]
    for row in rows:
        assert row["name"] == f"{row['x']}.jpg"
        assert (row["pixels"] == np.full((2, 3), row["x"])).all()


def test_sources_that_begin_anywhere_are_read_in_parts(data: Any) -> None:
    sampler = EpochSampler(60, seed=5, rank=0, world_size=1)
    rows = data.read_datasource(ray_datasource(config(sampler, str), rows_per_task=16)).take_all()
    assert sorted(int(row["item"]) for row in rows) == list(range(60))
    with pytest.raises(ValueError, match="can begin anywhere"):
        ray_datasource(config(iter([1]), str))


def test_stages_run_on_the_batches_of_a_dataset(data: Any) -> None:
    def double(row: dict[str, Any]) -> dict[str, Any] | None:
        return None if row["id"] % 3 == 0 else {"id": row["id"], "twice": 2 * row["id"]}

    stages = [Pipe(double, concurrency=3)]
    mapped = data.range(100).map_batches(PipelineStage, fn_constructor_args=(stages, 3), batch_size=16, concurrency=1)
    rows = mapped.take_all()
    assert sorted((row["id"], row["twice"]) for row in rows) == [(x, 2 * x) for x in range(100) if x % 3]


@pytest.mark.parametrize("batch_size", [None, 8])
def test_a_dataset_is_the_source_of_a_pipeline(data: Any, batch_size: int | None) -> None:
    source = RayDataSource(data.range(50), batch_size=batch_size)
    builder: Any = (
        PipelineBuilder().add_source(source, continuous=True).pipe(lambda row: np.atleast_1d(row["id"]).tolist())
    )
    with builder.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
        for _ in range(2):
            assert sorted(item for batch in pipeline for item in batch) == list(range(50))
