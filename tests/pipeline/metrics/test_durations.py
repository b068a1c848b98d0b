from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._metrics.durations import BOUNDS, cumulative
from spdl.pipeline._metrics.histogram import Histogram


@given(st.lists(st.floats(0, 1e6)))
def test_the_counts_are_those_of_the_durations(durations: list[float]) -> None:
    histogram = Histogram()
    for seconds in durations:
        histogram.add(seconds)
    expected = [(bound, sum(seconds < bound for seconds in durations)) for bound in BOUNDS]
    assert cumulative(histogram.counts) == (*expected, (2.0**17, len(durations)))


def test_the_bounds_are_from_a_microsecond_to_a_minute() -> None:
    assert 0.9e-6 < BOUNDS[0] < 1e-6
    assert BOUNDS[-1] == 64
