"""Small charts of values over time, as SVG."""

from __future__ import annotations

from html import escape
from itertools import groupby
from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .series import Curve

__all__ = ["Line", "chart", "nice_ceiling", "number"]

_WIDTH, _HEIGHT = 320, 96
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 6, 8, 18


class Line(NamedTuple):
    """A curve on a chart.

    Attributes:
        name: What it shows.
        style: The class that the page's style sheet knows.
        curve: Its points.
        filled: Whether the area below it is filled.
    """

    name: str
    style: str
    curve: Curve
    filled: bool = False


def chart(
    title: str, lines: Sequence[Line], *, seconds: float, most: float | None = None, percent: bool = False
) -> str:
    """Return a chart as an element of HTML.

    Args:
        title: What it shows, for those who do not see it.
        lines: The curves.
        seconds: The end of the axis of time, which begins at 0.
        most: The end of the other axis; by default above the largest value.
        percent: Whether values are shares.
    """
    if most is None:
        most = nice_ceiling(max((y for line in lines for _, y in line.curve if y is not None), default=0.0))
    parts = [_grid(most, seconds, percent=percent)]
    parts += [_drawn(line, most, seconds) for line in lines]
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _x(at: float, seconds: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (at / seconds if seconds > 0 else 0.0)


def _y(value: float, most: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (value / most if most > 0 else 0.0)


def _grid(most: float, seconds: float, *, percent: bool) -> str:
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = _y(share * most, most)
        text = f"{100 * share * most:.0f} %" if percent else number(share * most)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{text}</text>')
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = _x(share * seconds, seconds)
        text = f"{number(share * seconds)} s"
        parts.append(f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 4}" text-anchor="{anchor}">{text}</text>')
    return "".join(parts)


def _drawn(line: Line, most: float, seconds: float) -> str:
    parts = []
    for known, points in groupby(line.curve, key=lambda point: point[1] is not None):
        if not known:
            continue
        places = [(_x(at, seconds), _y(min(value or 0.0, most), most)) for at, value in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        floor_ = _y(0.0, most)
        if line.filled:
            around = f"{places[0][0]:.1f},{floor_:.1f} {path} {places[-1][0]:.1f},{floor_:.1f}"
            parts.append(f'<polygon class="area {line.style}" points="{around}"/>')
        if len(places) == 1:
            parts.append(f'<circle class="dot {line.style}" cx="{places[0][0]:.1f}" cy="{places[0][1]:.1f}" r="1.5"/>')
        else:
            parts.append(f'<polyline class="line {line.style}" points="{path}"/>')
    return f"<g><title>{escape(line.name)}</title>{''.join(parts)}</g>"


def nice_ceiling(value: float) -> float:
    """Return the least of 1, 2, 5, 10, 20 ... (and 0.5, 0.2 ...) that is not below a value; 1 for 0."""
    if value <= 0:
        return 1.0
    step = 10.0 ** floor(log10(value))
    return next(factor * step for factor in (1, 2, 5, 10, 20) if factor * step >= value)


def number(value: float) -> str:
    """Return a number as people read it: three digits, and thousands apart."""
    if value == 0:
        return "0"
    digits = 3 - ceil(log10(abs(value)))
    if digits <= 0:
        return f"{value:,.0f}"
    return f"{value:.{min(digits, 6)}f}".rstrip("0").rstrip(".")
