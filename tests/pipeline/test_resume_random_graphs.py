"""Test that random graphs of all kinds of stages go on exactly where they were cut."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.kinds import text_log
from tests.pipeline.test_random_graphs import declare, expect_all, graphs, simple, slowly

from spdl.pipeline import Pipeline, build_pipeline
from spdl.pipeline.defs import Merge, PipelineConfig, SinkConfig, SourceConfig
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.filterwarnings("ignore:The source .* cannot begin at a position"),
    pytest.mark.filterwarnings("ignore:The source of the pipeline"),
    # Some graphs drop all items.
    pytest.mark.filterwarnings("ignore:Nothing came out of the pipeline"),
]


class Replayed:
    """A source that can only be iterated."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        return (index for index in range(self.size))


class Seekable(Replayed):
    """A source that begins anywhere."""

    def iterate_from(self, position: int) -> Iterator[int]:
        return (index for index in range(position, self.size))


async def _count(numbers: range) -> Any:
    for number in numbers:
        yield number


class Async:
    def __init__(self, size: int) -> None:
        self.size = size

    def __aiter__(self) -> Any:
        return _count(range(self.size))


class AsyncSeekable(Async):
    def iterate_from(self, position: int) -> Any:
        return _count(range(position, self.size))


SOURCES: dict[str, Callable[[int], Any]] = {
    "range": range,
    "list": lambda size: list(range(size)),
    "replayed": Replayed,
    "seekable": Seekable,
    "async": Async,
    "async_seekable": AsyncSeekable,
}
sources = st.sampled_from(sorted(SOURCES))


@contextmanager
def maker(
    graph: Any, kind: str, *, num_threads: int, sink: int, continuous: bool = False
) -> Iterator[Callable[[], Pipeline[Any]]]:
    with text_log(), ThreadPoolExecutor(2) as executor:

        def make() -> Pipeline[Any]:
            configs = [
                PipelineConfig(
                    SourceConfig(SOURCES[kind](size), continuous=continuous),
                    [s for stage in inner for s in declare(stage, executor)],
                    SinkConfig(1),
                )
                for size, inner in graph[0]
            ]
            later = [s for stage in graph[1] for s in declare(stage, executor)]
            if len(configs) == 1:
                config = PipelineConfig(configs[0].src, [*configs[0].pipes, *later], SinkConfig(sink))
            else:
                config = PipelineConfig(Merge(configs), later, SinkConfig(sink))
            return build_pipeline(config, num_threads=num_threads)

        yield make


@pytest.mark.timeout(600)
@slowly(50)
@given(graph=graphs, kind=sources, num_threads=st.integers(4, 8), sink=st.integers(1, 5), data=st.data())
def test_graphs_go_on_with_the_other_items(graph: Any, kind: str, num_threads: int, sink: int, data: Any) -> None:
    expected = expect_all(graph)
    cuts = data.draw(st.lists(st.integers(0, len(expected) + 1), min_size=1, max_size=5))
    with maker(graph, kind, num_threads=num_threads, sink=sink) as make:
        assert_resumes_exactly(make, ordered=False, cuts=cuts)


@pytest.mark.timeout(600)
@slowly(40)
@given(graph=graphs, kind=sources, num_threads=st.integers(4, 8), sink=st.integers(1, 5), data=st.data())
def test_epochs_go_on_with_the_other_items(graph: Any, kind: str, num_threads: int, sink: int, data: Any) -> None:
    expected = expect_all(graph)
    cuts = data.draw(st.lists(st.integers(0, 3 * (len(expected) + 1)), min_size=1, max_size=5))
    with maker(graph, kind, num_threads=num_threads, sink=sink, continuous=True) as make:
        assert_resumes_exactly(make, ordered=False, cuts=cuts, epochs=3)


@pytest.mark.timeout(600)
@slowly(60)
@given(
    size=st.integers(0, 40),
    kind=sources,
    chain=st.lists(simple.map(lambda stage: (*stage[:2], "input")), min_size=1, max_size=4),
    num_threads=st.integers(4, 8),
    sink=st.integers(1, 5),
    epochs=st.integers(1, 2),
    data=st.data(),
)
def test_chains_go_on_in_the_same_order(  # noqa: PLR0917 - as hypothesis draws them.
    size: int, kind: str, chain: list[Any], num_threads: int, sink: int, epochs: int, data: Any
) -> None:
    graph: tuple[list[Any], list[Any]] = ([(size, [])], chain)
    expected = expect_all(graph)
    cuts = data.draw(st.lists(st.integers(0, epochs * (len(expected) + 1)), min_size=1, max_size=5))
    with maker(graph, kind, num_threads=num_threads, sink=sink, continuous=epochs > 1) as make:
        assert_resumes_exactly(make, cuts=cuts, epochs=epochs)
