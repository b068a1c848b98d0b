import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.observe.report.svg import parse_svg

from spdl.observe._report.graph import graph, layers
from spdl.pipeline import AsyncQueue, PipelineBuilder
from spdl.pipeline.defs import Pipe


def test_layers_of_a_fork() -> None:
    assert layers(((0, 1), (1, 2), (1, 3), (3, 4), (2, 5), (4, 5)), 6) == [[0], [1], [2, 3], [4], [5]]


@given(st.data())
def test_all_edges_lead_to_the_right(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    edges = {
        tuple(sorted(data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True))))
        for _ in range(data.draw(st.integers(0, 8)) if count > 1 else 0)
    }
    found = layers(tuple((giver, taker) for giver, taker in edges), count)
    depths = {stage: depth for depth, members in enumerate(found) for stage in members}
    assert sorted(depths) == list(range(count))
    assert all(depths[giver] < depths[taker] for giver, taker in edges)


def test_the_edges_are_those_of_the_pipeline() -> None:
    first = PipelineBuilder().add_source(range(3)).pipe(abs, name="first")
    second = PipelineBuilder().add_source(range(4))
    pipeline = (
        PipelineBuilder()
        .merge([first, second])
        .path_variants(lambda item: item % 2, [[Pipe(abs, name="even")], [Pipe(abs, name="odd")]])
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        list(pipeline)
    statistics = pipeline.statistics()
    names = [stage.name for stage in statistics.stages]
    assert sorted((names[giver], names[taker]) for giver, taker in statistics.edges) == [
        ("even", "path_variants_merge"),
        ("first", "merge"),
        ("merge", "path_variants"),
        ("odd", "path_variants_merge"),
        ("path_variants", "even"),
        ("path_variants", "odd"),
        ("path_variants_merge", "sink"),
        ("src[0]", "first"),
        ("src[1]", "merge"),
    ]
    root = parse_svg(graph(statistics))
    assert len(list(root.iter("path"))) == 9
    boxes = [rect for rect in root.iter("rect") if rect.get("class", "").startswith("box")]
    assert len(boxes) == 9
    # No two of them overlap.
    places = [(float(box.get("x", "")), float(box.get("y", ""))) for box in boxes]
    width, height = float(boxes[0].get("width", "")), float(boxes[0].get("height", ""))
    assert not [
        (a, b) for a in places for b in places if a < b and abs(a[0] - b[0]) < width and abs(a[1] - b[1]) < height
    ]


class Own(AsyncQueue[object]):
    async def put(self, item: object) -> None:
        await super().put(item)


@pytest.mark.parametrize("build", [lambda builder: builder, lambda builder: builder.pipe(str)])
def test_queues_of_the_users_are_no_stages(build: object) -> None:
    builder = build(PipelineBuilder().add_source(range(3)))  # type: ignore[operator]
    pipeline = builder.add_sink().build(num_threads=1, queue_class=Own)
    count = len(pipeline.statistics().stages)
    assert pipeline.statistics().edges == tuple((stage, stage + 1) for stage in range(count - 1))
