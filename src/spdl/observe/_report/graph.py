"""The graph of a pipeline's stages, as SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from .chart import number

if TYPE_CHECKING:
    from spdl.pipeline._metrics.statistics import PipelineStatistics, StageStatistics

__all__ = ["graph", "layers"]

_BOX_WIDTH, _BOX_HEIGHT = 168, 74
_GAP_X, _GAP_Y, _MARGIN = 50, 22, 4
_LONGEST_NAME = 18
# A graph that is wider than the page is made smaller, but no smaller than can be read; then it can be scrolled.
_LEAST_SCALE = 0.6


class _Place(NamedTuple):
    x: float
    y: float


def layers(edges: tuple[tuple[int, int], ...], count: int) -> list[list[int]]:
    """Return the stages by their distance from the sources: the longest way, so that all edges lead to the right.

    Args:
        edges: Which stage gives to which. A stage comes behind all that give to it.
        count: How many stages there are.
    """
    depths = [0] * count
    for _ in range(count):
        for giver, taker in edges:
            depths[taker] = max(depths[taker], depths[giver] + 1)
    found: list[list[int]] = [[] for _ in range(max(depths, default=-1) + 1)]
    for stage, depth in enumerate(depths):
        found[depth].append(stage)
    return found


def graph(statistics: PipelineStatistics) -> str:
    """Return the graph as an element of HTML, each stage with what it did from the start on."""
    stages = statistics.stages
    columns = layers(statistics.edges, len(stages))
    most = max(map(len, columns))
    height = 2 * _MARGIN + most * _BOX_HEIGHT + (most - 1) * _GAP_Y
    width = 2 * _MARGIN + len(columns) * _BOX_WIDTH + (len(columns) - 1) * _GAP_X
    places: dict[int, _Place] = {}
    for column, members in enumerate(columns):
        taken = len(members) * _BOX_HEIGHT + (len(members) - 1) * _GAP_Y
        for row, stage in enumerate(members):
            x = _MARGIN + column * (_BOX_WIDTH + _GAP_X)
            places[stage] = _Place(x, (height - taken) / 2 + row * (_BOX_HEIGHT + _GAP_Y))
    parts = []
    labelled: set[int] = set()
    for giver, taker in statistics.edges:
        # A stage that merges has one label.
        parts.append(_edge(places[giver], places[taker], stages[taker], labelled=taker not in labelled))
        labelled.add(taker)
    for number_, each in enumerate(stages):
        is_limit = repr(each.name) in statistics.bottleneck
        parts.append(_box(places[number_], each, is_sink=number_ == len(stages) - 1, is_limit=is_limit))
    return (
        f'<div class="wide"><svg style="max-width: {width}px; min-width: {_LEAST_SCALE * width:.0f}px" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="The stages and the ways of items">'
        f"{''.join(parts)}</svg></div>"
    )


def _edge(giver: _Place, taker: _Place, stage: StageStatistics, *, labelled: bool) -> str:
    x1, y1 = giver.x + _BOX_WIDTH, giver.y + _BOX_HEIGHT / 2
    x2, y2 = taker.x, taker.y + _BOX_HEIGHT / 2
    middle = (x1 + x2) / 2
    line = f'<path class="edge" d="M{x1:.0f} {y1:.1f} C{middle:.0f} {y1:.1f} {middle:.0f} {y2:.1f} {x2:.0f} {y2:.1f}"/>'
    if not stage.queue_capacity or not labelled:
        return line
    # Beside the box of the taker, where no other edge's label is.
    fill = f"{100 * stage.queue_fill:.0f} %"
    title = f"The queue of {stage.queue_capacity} in front of {stage.name} was {fill} full on average"
    text = f'<text class="fill" x="{x2 - 4:.0f}" y="{y2 - 6:.1f}" text-anchor="end">{fill}</text>'
    return f"<g><title>{escape(title)}</title>{line}{text}</g>"


def _box(at: _Place, stage: StageStatistics, *, is_sink: bool, is_limit: bool) -> str:
    name = stage.name if len(stage.name) <= _LONGEST_NAME else stage.name[: _LONGEST_NAME - 1] + "…"
    share = _waiting_share(stage) if is_sink else stage.busy_share
    figures = f"{number(stage.items_per_second)}/s"
    below = f"{100 * share:.0f} % waiting" if is_sink else f"{100 * share:.0f} % busy"
    if not is_sink and stage.concurrency > 1:
        below += f" of {stage.concurrency} slots"
    style = "waits" if is_sink else "busy"
    x, y = at
    failed = (
        f'<text class="bad" x="{x + _BOX_WIDTH - 10:.0f}" y="{y + 38:.1f}" text-anchor="end">{stage.num_failed:,} '
        f"failed</text>"
        if stage.num_failed
        else ""
    )
    return (
        f"<g><title>{escape(stage.name)}</title>"
        f'<rect class="box{" limit" if is_limit else ""}" x="{x:.0f}" y="{y:.1f}" width="{_BOX_WIDTH}" '
        f'height="{_BOX_HEIGHT}" rx="6"/>'
        f'<text class="name" x="{x + 10:.0f}" y="{y + 20:.1f}">{escape(name)}</text>'
        f'<text x="{x + 10:.0f}" y="{y + 38:.1f}">{figures}</text>{failed}'
        f'<rect class="track" x="{x + 10:.0f}" y="{y + 46:.1f}" width="{_BOX_WIDTH - 20}" height="5" rx="2"/>'
        f'<rect class="area {style}" x="{x + 10:.0f}" y="{y + 46:.1f}" width="{share * (_BOX_WIDTH - 20):.1f}" '
        f'height="5" rx="2"/>'
        f'<text class="small" x="{x + 10:.0f}" y="{y + 66:.1f}">{below}</text></g>'
    )


def _waiting_share(sink: StageStatistics) -> float:
    return min(1.0, sink.starved_seconds / sink.elapsed) if sink.elapsed > 0 else 0.0
