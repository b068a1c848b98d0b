"""Rows become columns and columns rows."""

from __future__ import annotations

import numpy as np
import pytest

from spdl.pipeline.defs import Pipe
from spdl.ray import PipelineStage, RayDataSource
from spdl.ray._data.columns import columns_of, rows_of


def test_there_and_back() -> None:
    rows = [{"x": number, "pixels": np.full(3, number), "name": str(number)} for number in range(4)]
    columns = columns_of(rows)
    assert columns["pixels"].shape == (4, 3)
    assert columns["x"].dtype == np.asarray([1]).dtype
    assert [row["name"] for row in rows_of(columns)] == ["0", "1", "2", "3"]
    ragged = columns_of([np.zeros(2), np.zeros(3)])["item"]
    assert [each.shape for each in ragged] == [(2,), (3,)]
    assert columns_of([]) == {}


def test_rows_with_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="different columns"):
        columns_of([{"a": 1}, {"b": 2}])


def test_a_stage_may_drop_all_rows_and_get_none() -> None:
    stage = PipelineStage([Pipe(lambda row: row if row["x"] > 1 else None)], num_threads=1)
    assert list(stage({"x": np.arange(2)})["x"]) == []
    assert list(stage({"x": np.arange(4)})["x"]) == [2, 3]
    assert list(stage({"x": np.arange(0)})["x"]) == []
    stage.close()


def test_what_is_no_dataset_is_refused() -> None:
    with pytest.raises(TypeError, match="dataset"):
        RayDataSource([1, 2])
