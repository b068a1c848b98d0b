"""Tables line up, and show the text that they were given."""

from __future__ import annotations

import pytest

from _program.table import print_table


def test_columns_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("-", "9.50", "short", "80.0%"), (128, "1234.25", "much longer", "9.1%")]
    print_table(("batch", "images/s", "loader", "share"), rows, indent="  ")
    assert capsys.readouterr().out.splitlines() == [
        "  batch  images/s  loader       share",
        "      -      9.50  short        80.0%",
        "    128   1234.25  much longer   9.1%",
    ]


def test_a_table_without_rows_is_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("batch", "images/s"), [])
    assert capsys.readouterr().out == "batch  images/s\n"


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        print_table(("batch", "images/s"), [(1,)])
