import io
import string
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.terminal import run_on_terminal

from spdl.cli._common.console import Console, say
from spdl.cli._common.table import LINE_WIDTH, Table

words = st.text(string.ascii_letters + string.digits + "%,./", min_size=1, max_size=12)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.integers(1, 8))
    header, *rows = draw(st.lists(st.lists(words, min_size=columns, max_size=columns), min_size=1, max_size=5))
    return Table("title", header, [*rows])


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(words, min_size=n, max_size=n), min_size=1, max_size=6)))
def test_plain_columns_stand_below_each_other(lines: list[list[str]]) -> None:
    header, *rows = lines
    title, *printed = Table("title", header, [*rows]).plain().splitlines()
    assert title == "title"
    del printed[1]  # The rule below the header.
    ends = {tuple(_ends(line)[1:]) for line in printed}
    assert len(ends) == 1
    assert [line.split() for line in printed] == lines


# Chinese, Japanese with its narrow and its wide letters, Korean, Thai with a vowel above, an accent of its own, and
# what is as wide as ASCII.
wide_words = st.text("ab漢字カｶ\uff21한ก\u0e31é\u0301ß", min_size=1, max_size=12).filter(
    lambda word: word[0] not in "\u0e31\u0301"
)


@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(wide_words, min_size=n, max_size=n), min_size=1, max_size=5))
)
def test_columns_of_wide_characters_stand_below_each_other(lines: list[list[str]]) -> None:
    columns = pytest.importorskip("rich.cells").cell_len
    header, *rows = lines
    printed = Table("", header, [*rows]).plain().splitlines()
    rule = printed.pop(1)
    assert len({columns(line) for line in printed if len(header) > 1} | {len(rule)}) == 1
    # Where a column ends, one ends in each line.
    ends = {tuple(columns(line[:end]) for end in _ends(line)[1:]) for line in printed}
    assert len(ends) == 1


def _ends(line: str) -> list[int]:
    """Return where each cell ends: all columns but the first are right-aligned."""
    return [index for index in range(1, len(line) + 1) if (line + " ")[index] == " " != line[index - 1]]


@given(st.lists(words, max_size=60), st.integers(12, 200))
def test_notes_are_folded_where_lines_have_a_width(note: list[str], width: int) -> None:
    table = Table("title", ["a"], [["1"]], note=" ".join(note))
    folded = table.plain(width).splitlines()[4:]
    assert " ".join(folded).split() == note
    assert all(len(line) <= min(width, LINE_WIDTH) for line in folded)
    assert table.plain().splitlines()[4:] == ([table.note] if note else [])


@given(tables(), st.integers(20, 120))
def test_a_narrow_terminal_gets_the_columns_in_parts_and_every_cell_whole(table: Table, width: int) -> None:
    header, *rows = [list(table.header), *map(list, table.rows)]
    parts = table.fitting(width)
    assert header == [header[0], *(heading for part in parts for heading in part.header[1:])]
    for index, row in enumerate(rows):
        assert row == [row[0], *(cell for part in parts for cell in part.rows[index][1:])]
    widest = max(map(len, (row[0] for row in (header, *rows))))
    for part in parts:
        (columns,) = {len(part.header)} | {len(row) for row in part.rows}
        assert columns == 2 or max(map(len, part.plain().splitlines())) <= max(width, widest)


@given(tables(), st.integers(40, 120))
def test_rich_cuts_no_cell(table: Table, width: int) -> None:
    rich = pytest.importorskip("rich.console")
    console = rich.Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(table.rich(width))
    printed = console.file.getvalue().split()
    for row in (table.header, *table.rows):
        assert not set(row) - set(printed)


def test_columns_that_belong_together_stay_together() -> None:
    table = Table("", ["name", "a", "of a", "b", "of b"], [["x", "1", "2", "3", "4"]], joined=(2, 4))
    assert [part.header for part in table.fitting(14)] == [["name", "a", "of a"], ["name", "b", "of b"]]


def test_what_says_which_row_it_is_stands_in_each_part() -> None:
    table = Table("", ["name", "id", "a", "b"], [["x", "77", "111", "222"]], repeated=("id",))
    assert [part.header for part in table.fitting(13)] == [["name", "id", "a"], ["name", "id", "b"]]
    assert [part.header for part in table.fitting(18)] == [["name", "id", "a", "b"]]
    assert [part.header for part in table.fitting(3)] == [["name", "id", "a"], ["name", "id", "b"]]


def test_long_names_make_room_for_numbers() -> None:
    table = Table("", ["stage", "items", "items/s"], [["aggregate(op=collate(8), drop_last=False)", "1,234", "56.7"]])
    assert [part.rows for part in table.fitting(60)] == [table.rows]
    assert [part.rows for part in table.fitting(40)] == [[["aggregate(op=collate(...", "1,234", "56.7"]]]


def test_names_that_differ_only_at_their_end_are_told_apart() -> None:
    left, right = "decode_images_of_the_camera_left", "decode_images_of_the_camera_right"
    table = Table("", ["stage", "items"], [[left, "1"], [right, "2"], ["load_everything_else_there_is", "3"]])
    (narrow,) = table.fitting(30)
    assert [row[0] for row in narrow.rows] == [
        "decode_ima...amera_left",
        "decode_ima...mera_right",
        "load_everything_else...",
    ]
    assert [part.rows for part in table.fitting(60)] == [table.rows]


def test_a_name_steers_no_terminal() -> None:
    hostile = "a\x1b]0;title\x07\x1b[2Jb\nc\r\x9b31md\u202ee\udcfff"
    table = Table(f"title {hostile}", ["stage", "items"], [[hostile, "1"]], note=f"Slow: {hostile}")
    plain = table.plain()
    assert all(it.isprintable() for it in plain.replace("\n", ""))
    assert "a\\x1b]0;title\\x07\\x1b[2Jb\\nc\\r\\x9b31md\\u202ee\\udcfff  " in plain
    rich = pytest.importorskip("rich.console")
    console = rich.Console(width=120, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(table.rich(120))
    assert not set("\x1b\x07\x9b\r\u202e\udcff") & set(console.file.getvalue())


def test_rare_columns_are_left_out_while_they_hold_nothing() -> None:
    table = Table("", ["stage", "items", "dropped", "failed"], [["a", "0", "0", "-"]], rare=("dropped", "failed"))
    assert table.without_nothing().header == ["stage", "items"]
    table.rows.append(["b", "5", "0", "1"])
    assert table.without_nothing().header == ["stage", "items", "failed"]
    assert [list(row) for row in table.without_nothing().rows] == [["a", "0", "-"], ["b", "5", "1"]]


def test_where_only_rich_is_missing_it_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    Console().hint_at_rich()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    Console().hint_at_rich()
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TERM", "xterm")
    Console().hint_at_rich()
    assert "pip install 'spdl-turbo[demo]'" in capsys.readouterr().out


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("0", None), ("wide", None), ("-5", None), (None, None)])
def test_a_pipe_is_as_wide_as_columns_says(
    columns: str | None, width: int | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    assert Console().width == width
    numbers = [f"{number},000,000" for number in range(100, 108)]
    Console().table(Table("Pipelines", [f"column {number}" for number in range(8)], [numbers]))
    lines = capsys.readouterr().out.splitlines()
    assert set(numbers) <= set(" ".join(lines).split())
    Console().print("word " * 30)
    assert capsys.readouterr().out == "word " * 30 + "\n"
    assert (max(map(len, lines)) <= 60) is (width == 60)


def test_lines_are_broken_between_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    line = "  spdl-turbo: 1,234, 5,678, 9,012; keeps 2 threads in /a/path/that/is/longer/than/the/terminal/is/wide"
    Console().print(line)
    printed = capsys.readouterr().out.splitlines()
    assert " ".join(printed).split() == line.split()
    assert all(len(it) <= 30 or it.strip().startswith("/a/path") for it in printed)


def test_a_message_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = " ".join(["word"] * 30)
    say(sentence)
    assert capsys.readouterr().err == f"spdl: {sentence}\n"


def test_a_message_on_a_terminal_is_broken_between_words() -> None:
    pytest.importorskip("rich")
    shown, status = run_on_terminal(["profile", "no_such_module:builder"], columns=60)
    lines = shown.replace("\r", "").splitlines()
    assert status == 2
    assert lines[0].startswith("spdl: ")
    assert len(lines) >= 3
    assert max(map(len, lines)) <= 60


def test_what_looks_like_the_name_of_an_emoji_stays() -> None:
    pytest.importorskip("rich")
    shown, _ = run_on_terminal(["bench", "images", "/no/:bug:/folder"])
    assert "/no/:bug:/folder" in shown
