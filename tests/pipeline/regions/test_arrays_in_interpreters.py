"""Arrays cross to interpreters, which cannot import numpy, as memoryviews, and come back as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.interpreters import needs_interpreters, use_interpreters

from spdl.pipeline import Pipeline, PipelineBuilder, iterate_in_subinterpreter
from spdl.pipeline.defs import MAIN_PROCESS, InterpreterPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.timeout(120), needs_interpreters]


@pytest.fixture(autouse=True)
def interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    use_interpreters(monkeypatch)


def region(items: Any, op: Callable[[Any], Any]) -> Pipeline[Any]:
    builder = PipelineBuilder[Any, Any]().add_source(items).to(InterpreterPoolExecutorConfig(1)).pipe(op)
    return builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)


def run(pipeline: Pipeline[Any]) -> list[Any]:
    with pipeline.auto_stop():
        return list(pipeline.get_iterator(timeout=60))


def test_an_array_arrives_as_a_memoryview() -> None:
    arrays: list[Any] = [np.arange(6, dtype="i2").reshape(2, 3), np.arange(4.0)[::2], np.array([True])]
    out = run(region(arrays, ops.describe_view))
    assert out == [("memoryview", memoryview(it).format, it.shape, it.tolist(), False) for it in arrays]


@pytest.mark.parametrize("shape", [(2, 3), (40, 50)])
def test_a_memoryview_comes_back_as_an_array(shape: tuple[int, int]) -> None:
    array = np.arange(shape[0] * shape[1], dtype="f4").reshape(shape)
    ((name, doubled),) = run(region([("a", array)], ops.double_view))
    assert name == "a"
    np.testing.assert_array_equal(doubled, 2 * array, strict=True)
    doubled += 1


def test_an_array_that_cannot_cross_is_one_failed_item() -> None:
    pipeline = region([np.arange(2), np.zeros(3, complex), np.arange(3)], ops.same)
    out = run(pipeline)
    assert [it.tolist() for it in out] == [[0, 1], [0, 1, 2]]
    (failure,) = pipeline.failures()
    assert failure.positions == (1,)
    assert "complex128 cannot be sent to another interpreter" in failure.error


def test_memoryviews_of_an_iterable_arrive_as_arrays() -> None:
    items = iterate_in_subinterpreter(ops.Views)
    arrays = list(items)
    items.close()
    for array, view in zip(arrays, ops.Views(), strict=True):
        np.testing.assert_array_equal(array, np.asarray(view), strict=True)
