import string

from hypothesis import given
from hypothesis import strategies as st

from spdl.cli._common.console import LINE_WIDTH, Table

words = st.text(string.ascii_letters + string.digits + "%,./", min_size=1, max_size=12)


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(words, min_size=n, max_size=n), min_size=1, max_size=6)))
def test_plain_columns_stand_below_each_other(lines: list[list[str]]) -> None:
    header, *rows = lines
    title, *printed = Table("title", header, [*rows]).plain().splitlines()
    assert title == "title"
    del printed[1]  # The rule below the header.
    ends = {tuple(_ends(line)[1:]) for line in printed}
    assert len(ends) == 1
    assert [line.split() for line in printed] == lines


def _ends(line: str) -> list[int]:
    """Return where each cell ends: all columns but the first are right-aligned."""
    return [index for index in range(1, len(line) + 1) if (line + " ")[index] == " " != line[index - 1]]


@given(st.lists(words, max_size=60))
def test_plain_notes_are_folded(note: list[str]) -> None:
    table = Table("title", ["a"], [["1"]], note=" ".join(note))
    folded = table.plain().splitlines()[4:]
    assert " ".join(folded).split() == note
    assert all(len(line) <= LINE_WIDTH for line in folded)
