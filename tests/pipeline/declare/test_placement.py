"""The declarations of regions, and what is refused."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, build_pipeline
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    ExecutorConfig,
    PathVariants,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    SinkConfig,
    SourceConfig,
)

POOL = ProcessPoolExecutorConfig(2)


def builder() -> PipelineBuilder[Any, Any]:
    return PipelineBuilder().add_source([1])


def test_what_marks_look_like() -> None:
    assert repr(PlacementConfig(MAIN_PROCESS)) == "placement(MAIN_PROCESS)"
    assert repr(PlacementConfig(POOL, buffer_size=4)) == (
        "placement(ProcessPoolExecutorConfig(max_workers=2), buffer_size=4)"
    )
    assert "on_death='rerun'" in repr(ProcessPoolExecutorConfig(on_death="rerun"))


def test_the_main_process_is_one_object_in_all_processes() -> None:
    assert pickle.loads(pickle.dumps(MAIN_PROCESS)) is MAIN_PROCESS  # noqa: S301 - our own.
    mark = PlacementConfig(POOL, "here", 3)
    assert pickle.loads(pickle.dumps(mark)) == mark  # noqa: S301 - our own.


@pytest.mark.parametrize("target", [None, "processes", 3, ProcessPoolExecutorConfig, ExecutorConfig()])
def test_other_targets_are_refused(target: Any) -> None:
    with pytest.raises(TypeError, match="target"):
        builder().to(target)


def test_a_live_executor_is_refused() -> None:
    with ProcessPoolExecutor(1) as executor, pytest.raises(TypeError, match="makes its workers itself"):
        builder().to(executor)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, -1, 1.5, "1"])
def test_sizes_are_checked(size: Any) -> None:
    with pytest.raises(ValueError, match="buffer_size"):
        builder().to(POOL, buffer_size=size)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"max_workers": 0}, ValueError),
        ({"max_workers": "2"}, TypeError),
        ({"initializer": 3}, TypeError),
        ({"initargs": [1]}, TypeError),
        ({"mp_context": "thread"}, ValueError),
        ({"mp_context": 3}, TypeError),
        ({"on_death": "ignore"}, ValueError),
        ({"on_death": "rerun", "mp_context": "fork"}, ValueError),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind, match=next(reversed(arguments))):
        ProcessPoolExecutorConfig(**arguments)


def test_a_region_must_be_closed() -> None:
    open_region = builder().to(POOL).pipe(str).add_sink()
    with pytest.raises(ValueError, match="is not closed"):
        open_region.get_config()


@pytest.mark.parametrize("last", [MAIN_PROCESS, POOL])
def test_a_region_must_have_stages(last: Any) -> None:
    empty = builder().to(POOL).to(last).add_sink()
    with pytest.raises(ValueError, match="has no stage"):
        empty.get_config()


def test_regions_in_merged_pipelines_are_checked() -> None:
    with pytest.raises(ValueError, match="is not closed"):
        PipelineBuilder().merge([builder().to(POOL).pipe(str)])


def test_declarations_by_hand_are_checked() -> None:
    with pytest.raises(ValueError, match="is not closed"):
        PipelineConfig(SourceConfig([1]), [PlacementConfig(POOL), Pipe(str)], SinkConfig(1))


def test_marks_do_not_belong_into_paths() -> None:
    with pytest.raises(ValueError, match="paths"):
        PathVariants(bool, [[PlacementConfig(MAIN_PROCESS)]])  # type: ignore[list-item]


def test_the_main_process_alone_changes_nothing() -> None:
    config = builder().to(MAIN_PROCESS).pipe(str).to(MAIN_PROCESS).add_sink().get_config()
    with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        assert list(pipeline) == ["1"]
