import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.cli._demo.comparison import Comparison, Contender
from spdl.cli._demo.measures import MEASURES, comparison_table, headline
from spdl.cli._demo.peers import Environment
from spdl.cli._demo.turn import Turn

amounts = st.floats(0.01, 1e4)


def contender(label: str, *, seconds: float = 1, cpu_seconds: float = 1, memory: int | None = 2**20) -> Contender:
    turn = Turn(label, 100, seconds, cpu_seconds, seconds / 10, memory, memory)
    return Contender(Environment(label, label, "thread", ()), workers=2, turns=[turn])


@given(amounts, amounts)
def test_twice_as_fast_is_twice_as_good_by_every_measure_of_time(one: float, other: float) -> None:
    ours = contender("ours", seconds=one, cpu_seconds=other)
    theirs = contender("theirs", seconds=2 * one, cpu_seconds=2 * other)
    for name in ("images_per_second", "images_per_cpu_second", "cpu_seconds_per_image", "first_batch_seconds"):
        assert MEASURES[name].advantage(ours, theirs) == pytest.approx(2)
        assert MEASURES[name].advantage(theirs, ours) == pytest.approx(0.5)
        assert MEASURES[name].verdict(ours, theirs) == "2.00x better"
        assert MEASURES[name].verdict(theirs, ours) == "2.00x worse"


def test_less_memory_is_better() -> None:
    ours, theirs = contender("ours", memory=2**20), contender("theirs", memory=5 * 2**20)
    assert MEASURES["peak_memory_bytes"].verdict(ours, theirs) == "5.00x better"
    assert MEASURES["peak_memory_bytes"].cell(theirs) == "5"


def test_what_was_not_measured_has_no_verdict() -> None:
    ours, theirs = contender("ours"), contender("theirs", memory=None)
    measure = MEASURES["peak_memory_bytes"]
    assert (measure.advantage(ours, theirs), measure.verdict(ours, theirs), measure.cell(theirs)) == (None, "-", "-")


def test_table_and_headline() -> None:
    ours, theirs = contender("ours", cpu_seconds=0.5), contender("theirs")
    comparison = Comparison([ours, theirs], {})
    table = comparison_table(comparison)
    assert list(table.header) == ["", "ours", "theirs", "ours is"]
    assert ["images per CPU-second", "200", "100", "2.00x better"] in table.rows
    assert table.rows[0] == ["workers", "2 threads", "2 threads", ""]
    assert headline(comparison) == "ours: 200 images per CPU-second, 2.00x better than theirs"
    assert headline(Comparison([ours], {})) == "ours: 200 images per CPU-second"
