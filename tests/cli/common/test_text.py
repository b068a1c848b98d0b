import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.cli._common.text import duration, mebibytes, number, several, shortened, without_middle


@given(st.floats(0.001, 1e9))
def test_numbers_keep_three_digits(value: float) -> None:
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.006, abs=0.0006)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.5, "0.500"), (1.234, "1.23"), (45.67, "45.7"), (123.4, "123"), (12345, "12,345")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 us"), (1.234e-6, "1.23 us"), (0.5e-3, "500 us"), (0.0123, "12.3 ms"), (4, "4.00 s")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_units() -> None:
    assert mebibytes(5 * 2**30) == "5,120 MiB"
    assert [several(count, "thread") for count in (0, 1, 2)] == ["0 threads", "1 thread", "2 threads"]
    assert several(2, "process") == "2 processes"


@given(st.lists(st.text("ab漢한ｶ", max_size=30), unique=True, max_size=8), st.integers(10, 20))
def test_shortened_names_are_short_and_differ(names: list[str], length: int) -> None:
    columns = pytest.importorskip("rich.cells").cell_len
    found = shortened(names, length)
    assert len(set(found)) == len(names)
    for name, short in zip(names, found, strict=True):
        assert short == name if columns(name) <= length else columns(short) <= length


@given(st.text("ab漢한ｶ", max_size=30), st.integers(5, 20))
def test_what_is_too_wide_keeps_its_beginning_and_its_end(text: str, width: int) -> None:
    columns = pytest.importorskip("rich.cells").cell_len
    found = without_middle(text, width)
    if columns(text) <= width:
        assert found == text
        return
    first, last = found.split("...")
    assert text.startswith(first)
    assert text.endswith(last)
    # A character that takes two columns may not fit.
    assert width - 2 <= columns(found) <= width
