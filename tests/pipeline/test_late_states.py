"""A pipeline's state is loaded before it starts: iterators that there are by then heed it, and later it is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from spdl.pipeline import Pipeline


def make(*, continuous: bool = False) -> Pipeline[int]:
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    return builder.add_source(range(9), continuous=continuous).pipe(lambda x: x * x).add_sink(2).build(num_threads=1)


def _state(*, continuous: bool) -> Any:
    with make(continuous=continuous).auto_stop() as pipeline:
        assert [pipeline.get_item(timeout=20) for _ in range(4)] == [0, 1, 4, 9]
        return json.loads(json.dumps(pipeline.state_dict()))


REST = [16, 25, 36, 49, 64]


@pytest.mark.parametrize("continuous", [False, True])
def test_an_iterator_that_was_not_read_goes_on_from_the_state(*, continuous: bool) -> None:
    state = _state(continuous=continuous)
    pipeline = make(continuous=continuous)
    iterators = [iter(pipeline), pipeline.get_iterator(timeout=20)]
    pipeline.load_state_dict(state)
    assert json.loads(json.dumps(pipeline.state_dict()))["sources"] == state["sources"]
    assert list(iterators[1]) == REST
    if continuous:
        assert next(iterators[0]) == 0
    pipeline.stop()


@pytest.mark.parametrize("read", [True, False])
def test_a_pipeline_that_was_started_refuses_a_state(*, read: bool) -> None:
    state = _state(continuous=False)
    pipeline = make()
    iterator = pipeline.get_iterator(timeout=20)
    first = [next(iterator)] if read else []
    if not read:
        pipeline.start()
    with pytest.raises(RuntimeError, match=r"started already: load the state before.*build another one"):
        pipeline.load_state_dict(state)
    assert first + list(iterator) == [0, 1, 4, 9, *REST]
    assert json.loads(json.dumps(pipeline.state_dict())) != state
    pipeline.stop()
