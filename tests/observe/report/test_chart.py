import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.observe.report.svg import parse_svg

from spdl.observe._report.chart import Line, chart, nice_ceiling, number


@given(st.floats(1e-6, 1e12))
def test_a_nice_ceiling_is_above_and_near(value: float) -> None:
    found = nice_ceiling(value)
    assert value <= found <= value * 2.51
    assert f"{found:.0e}"[0] in "125"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.001234, "0.00123"),
        (0.5, "0.5"),
        (1, "1"),
        (12.345, "12.3"),
        (100, "100"),
        (999.9, "1,000"),
        (1234.5, "1,234"),
        (2_000_000, "2,000,000"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(0, 1e9, allow_subnormal=False))
def test_numbers_are_right_to_a_percent(value: float) -> None:
    assert math.isclose(float(number(value).replace(",", "")), value, rel_tol=0.01, abs_tol=1e-6)


def points(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in text.split())]


def test_a_line_goes_through_its_points() -> None:
    root = parse_svg(chart("rate <&>", [Line("a & b", "busy", [(0.0, 0.0), (5.0, 10.0), (10.0, 5.0)])], seconds=10.0))
    assert root.get("aria-label") == "rate <&>"
    (line,) = root.iter("polyline")
    (x0, y0), (x1, y1), (x2, y2) = points(line.get("points", ""))
    assert x1 - x0 == pytest.approx(x2 - x1)
    # Downwards is more in SVG.
    assert y0 - y1 == pytest.approx(2 * (y0 - y2), abs=0.2)
    assert [each.text for each in root.iter("text")] == ["0", "5", "10", "0 s", "5 s", "10 s"]


def test_a_line_is_broken_where_nothing_is_known() -> None:
    curve = [(0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 1.0), (4.0, None), (5.0, 3.0), (6.0, 4.0)]
    root = parse_svg(chart("x", [Line("x", "busy", curve, filled=True)], seconds=6.0))
    assert [len(points(line.get("points", ""))) for line in root.iter("polyline")] == [2, 2]
    assert len(list(root.iter("circle"))) == 1


def test_nothing_to_draw_is_an_empty_chart() -> None:
    root = parse_svg(chart("x", [Line("x", "busy", [])], seconds=0.0, most=1.0, percent=True))
    assert list(root.iter("polyline")) == []
    assert "100 %" in [each.text for each in root.iter("text")]
