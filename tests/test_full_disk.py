"""What is written to a full disk names the file, and leaves the one that was there."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import numpy as np
import pytest

from spdl.io import save_image, save_npy, save_npz
from spdl.observe import PrometheusFile, record_trace, write_report
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.source import Files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ZEROS = np.random.default_rng(1).integers(0, 255, (100, 100, 3), np.uint8)


@pytest.fixture
def pipeline() -> Pipeline[str]:
    return PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build(num_threads=1)


def write_trace(path: Path, pipeline: Pipeline[str]) -> None:
    with record_trace(path), pipeline.auto_stop():
        list(pipeline)


WRITERS: dict[str, Callable[[Path, Pipeline[str]], object]] = {
    "save_npy": lambda path, _: save_npy(path, ZEROS),
    "save_npz": lambda path, _: save_npz(path, {"a": ZEROS}),
    "save_image": lambda path, _: save_image(path, ZEROS),
    "write_report": lambda path, pipeline: write_report(pipeline, path),
    "PrometheusFile": lambda path, pipeline: PrometheusFile(pipeline, path),
    "record_trace": write_trace,
    "manifest": lambda path, _: Files(path.parent, manifest=path),
}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_named_by_the_file(tmp_path: Path, pipeline: Pipeline[str], name: str, *, there: bool) -> None:
    path = tmp_path / "written.png"
    if there and name != "manifest":  # A manifest that is there is read.
        path.write_bytes(b"earlier")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            WRITERS[name](path, pipeline)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(path) in str(caught.value)
    if name != "record_trace":  # Which writes into the file itself.
        left = [each.name for each in tmp_path.iterdir() if not each.name.endswith(".lock")]
        assert left == (["written.png"] if path.exists() else [])
        assert not path.exists() or path.read_bytes() == b"earlier"
