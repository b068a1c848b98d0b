"""Test profiles of forks and merges: each path and branch is measured with the items that it would get."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source

from spdl.pipeline import PipelineFailure, ProfileResult, is_eof, profile_pipeline
from spdl.pipeline.defs import Aggregate, Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from spdl.pipeline import StageInfo

# The next stage gets the results for the first pass over the items. If several items are worked on at once, one of
# the second pass may overtake one of the first. If a busy machine is late with the first one, others need more time.
pytestmark = pytest.mark.usefixtures("patient", "one_at_a_time")


class Notes:
    """An op that records its items."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def __call__(self, x: Any) -> Any:
        self.seen.add(tuple(x) if isinstance(x, list) else x)
        return x


def profile(items: Any, *stages: Any, num_inputs: int = 1000) -> list[ProfileResult]:
    return profile_pipeline(PipelineConfig(SourceConfig(items), stages, SinkConfig(3)), num_inputs)


def test_paths_get_what_the_router_sends_there() -> None:
    small, large, after = Notes(), Notes(), Notes()
    fork = PathVariants(lambda x: int(x >= 30), [[Pipe(small, name="a")], [Pipe(str), Pipe(large, name="b")]])
    results = profile(range(40), fork, Pipe(after, name="after"))
    assert [it.name for it in results] == [
        "path_variants_path0/a",
        "path_variants_path1/str",
        "path_variants_path1/b",
        "after",
    ]
    assert small.seen == set(range(30))
    assert large.seen == {str(x) for x in range(30, 40)}
    assert after.seen == small.seen | large.seen
    assert [it.flow for it in results] == [0.75, 0.25, 0.25, 1.0]


def test_async_router() -> None:
    async def route(x: int) -> int:
        return x % 2

    odd = Notes()
    profile(range(20), PathVariants(route, [[Pipe(abs)], [Pipe(odd)]], "parity"))
    assert odd.seen == set(range(1, 20, 2))


def test_forks_in_forks() -> None:
    notes = Notes()
    inner = PathVariants(lambda x: x % 2, [[Pipe(abs)], [Pipe(notes, name="odd")]], "inner")
    results = profile(range(20), PathVariants(lambda x: int(x >= 10), [[inner], [Pipe(abs)]], "outer"))
    assert [it.name for it in results] == [
        "outer_path0/inner_path0/abs",
        "outer_path0/inner_path1/odd",
        "outer_path1/abs",
    ]
    assert notes.seen == {1, 3, 5, 7, 9}


def test_batched_fork() -> None:
    """Each path gets its share of each batch, and the shares of all paths form a batch again."""
    even, after = Notes(), Notes()
    fork = PathVariants(
        lambda batch: [x % 2 for x in batch], [[Pipe(even)], [Pipe(lambda batch: [-x for x in batch])]], batched=True
    )
    profile(range(24), Aggregate(4), fork, Pipe(after))
    assert even.seen == {(x, x + 2) for x in range(0, 24, 4)}
    assert {x for batch in after.seen for x in batch} == {-x if x % 2 else x for x in range(24)}
    assert {len(batch) for batch in after.seen} == {4}


@pytest.mark.parametrize("batched", [False, True])
def test_a_path_that_gets_nothing(batched: bool, caplog: pytest.LogCaptureFixture) -> None:  # noqa: FBT001
    router = (lambda batch: [0] * len(batch)) if batched else (lambda _: 0)
    items = [[1, 2], [3]] if batched else [1, 2]
    results = profile(items, PathVariants(router, [[Pipe(list if batched else abs)], [Pipe(abs)]], batched=batched))
    assert len(results) == 1
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.getMessage() == "path_variants_path1 is not profiled: the router sent it none of 2 items."


def test_a_path_may_keep_everything_back() -> None:
    after = Notes()
    profile(range(10), PathVariants(lambda x: x % 2, [[Pipe(lambda _: None)], [Pipe(abs)]]), Pipe(after))
    assert after.seen == {1, 3, 5, 7, 9}


@pytest.mark.parametrize(
    ("batched", "where", "complaint"),
    [
        (False, 2, "must return an index, each from 0 to 1, got 2"),
        (False, -1, "got -1"),
        (True, [0], "an index for each element of the batch"),
        (True, [0, 5], "got \\[0, 5\\]"),
    ],
)
def test_a_router_that_names_no_path(batched: bool, where: Any, complaint: str) -> None:  # noqa: FBT001
    fork = PathVariants(lambda _: where, [[Pipe(len)], [Pipe(len)]], batched=batched)
    with pytest.raises(PipelineFailure) as failure:
        profile([[1, 2]], fork)
    cause = failure.value.exceptions[0].__cause__
    assert isinstance(cause, IndexError)
    with pytest.raises(IndexError, match=complaint):
        raise cause


def config(builder: Any) -> PipelineConfig[Any]:
    made: PipelineConfig[Any] = builder.add_sink().get_config()
    return made


def test_merged_pipelines() -> None:
    branches = [config(source(range(10)).pipe(abs, name="a")), config(source([*"xyz"]).pipe(str, name="b"))]
    notes = Notes()
    merge = PipelineConfig(Merge(branches), [Pipe(notes, name="c")], SinkConfig(3))
    results = profile_pipeline(merge)
    assert [it.name for it in results] == ["a", "b", "c"]
    assert notes.seen == {*range(10), *"xyz"}
    assert [it.flow for it in results] == [1.0, 1.0, 2.0]


def test_merge_op_of_the_user() -> None:
    """The next stage gets the items that the merge op makes from the branches' results."""

    async def pairs(_info: StageInfo, inputs: Any, output: Any) -> None:
        while True:
            items = [await queue.get() for queue in inputs]
            if any(map(is_eof, items)):
                return
            await output.put(tuple(items))

    notes = Notes()
    branches = [config(source(range(5)).pipe(abs)), config(source([*"abcde"]).pipe(str))]
    results = profile_pipeline(PipelineConfig(Merge(branches, pairs), [Pipe(notes)], SinkConfig(3)))
    assert notes.seen == set(enumerate("abcde"))
    assert results[-1].flow == 1.0


def test_merge_gives_no_more_than_asked_for() -> None:
    branches = [config(source(range(start, start + 100))) for start in (0, 100, 200)]
    notes = Notes()
    profile_pipeline(PipelineConfig(Merge(branches), [Pipe(notes)], SinkConfig(3)), 30)
    assert len(notes.seen) == 30
    # In turn, as long as a branch has items: on a busy machine the third may not be pulled before the others gave 30.
    assert len({x // 100 for x in notes.seen}) > 1
