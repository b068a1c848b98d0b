"""Rows become columns and columns rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spdl.pipeline.defs import Pipe
from spdl.ray import PipelineStage, RayDataSource


def run(op: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that a stage makes of these."""
    stage = PipelineStage([Pipe(op)], num_threads=1)
    try:
        return stage(columns)
    finally:
        stage.close()


def test_pipeline_stage_gets_rows_and_gives_columns() -> None:
    given = {
        "x": np.arange(4),
        "pixels": np.arange(12).reshape(4, 3),
        "name": np.array(["0", "1", "2", "3"], dtype=object),
    }
    rows: list[dict[str, Any]] = []

    def note(row: dict[str, Any]) -> dict[str, Any]:
        rows.append(row)
        return row

    columns = run(note, given)
    assert [row["name"] for row in rows] == ["0", "1", "2", "3"]
    assert [row["pixels"].tolist() for row in rows] == given["pixels"].tolist()
    for name, column in given.items():
        np.testing.assert_array_equal(columns[name], column, strict=True)


def test_pipeline_stage_gives_a_column_of_arrays_of_different_shapes() -> None:
    column = run(lambda row: np.zeros(row["x"]), {"x": np.arange(2, 4)})["item"]
    assert [each.shape for each in column] == [(2,), (3,)]


def test_pipeline_stage_refuses_rows_with_different_columns() -> None:
    with pytest.raises(ValueError, match="different columns"):
        run(lambda row: {"a": 1} if row["x"] else {"b": 2}, {"x": np.arange(2)})


def test_pipeline_stage_may_drop_all_rows_and_get_none() -> None:
    stage = PipelineStage([Pipe(lambda row: row if row["x"] > 1 else None)], num_threads=1)
    assert list(stage({"x": np.arange(2)})["x"]) == []
    assert list(stage({"x": np.arange(4)})["x"]) == [2, 3]
    assert list(stage({"x": np.arange(0)})["x"]) == []
    stage.close()


def test_ray_data_source_refuses_what_is_no_dataset() -> None:
    with pytest.raises(TypeError, match="dataset"):
        RayDataSource([1, 2])
