"""Rules of the command that no option shows alone: numbers, names and tables as text, the profile's advice, and how CPU
time, memory and pip are measured and bounded."""

from __future__ import annotations

import dataclasses
import math
import string
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.cli._common.console import Console, say
from spdl.cli._common.machine import PipError, cpu_seconds, peak_memory, pip, session_memory
from spdl.cli._common.text import (
    LINE_WIDTH,
    Table,
    duration,
    mebibytes,
    number,
    several,
    shortened,
    without_middle,
)
from spdl.cli._observe.chosen import of_all_ranks
from spdl.cli._profile.view import ENOUGH, Advice, advise, print_profile
from spdl.observe import Verdict
from spdl.pipeline import ProfileResult, ProfileStats

if TYPE_CHECKING:
    from pathlib import Path

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

MEGABYTES = 2**20

# ---- text ----


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


# ---- tables and messages ----


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
def test_text_in_a_width_has_every_cell(table: Table, width: int) -> None:
    printed = table.plain(width).split()
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


# ---- the advice of a profile ----


CONCURRENCIES = (32, 16, 8, 4, 1)


@dataclass
class Op:
    """An op that waits and computes for given seconds, with or without the GIL, `flow` times per source item."""

    waits: float
    computes: float
    holds: bool = False
    flow: float = 1.0

    def rate(self, concurrency: float, cores: float) -> float:
        """Return ops per second: concurrency times the rate of one, unless computing reaches its limit."""
        alone = concurrency / (self.waits + self.computes)
        return min(alone, (1 if self.holds else cores) / self.computes) if self.computes else alone


def result_of(op: Op, name: str, cores: float) -> ProfileResult:
    measured = []
    for concurrency in CONCURRENCIES:
        rate = op.rate(concurrency, cores)
        num = 1_000_000
        runnable = max(1.0, concurrency * op.computes / (op.waits + op.computes))
        measured.append(
            ProfileStats(
                concurrency=concurrency,
                qps=rate,
                occupancy_rate=0.0,
                num_inputs=num,
                num_outputs=num,
                seconds=num / rate,
                busy_seconds=concurrency * num / rate,
                cpu_seconds=op.computes * num,
                num_runnable=1.0 if op.holds else runnable,
                num_waiting=0.0,
            )
        )
    return ProfileResult(name, measured, op.flow)


def advice_for(*ops: Op, cores: float = 4) -> Advice:
    return advise([result_of(op, f"op{index}", cores) for index, op in enumerate(ops)], cores)


ops = st.builds(
    Op,
    waits=st.sampled_from([0.0, 0.0, 0.001, 0.02]),
    computes=st.floats(1e-5, 0.01),
    holds=st.booleans(),
    flow=st.sampled_from([1.0, 1.0, 0.03, 3.0]),
)


@given(st.lists(ops, min_size=1, max_size=5), st.sampled_from([1, 2, 16]))
def test_every_stage_keeps_up_and_no_thread_is_idle(declared: list[Op], cores: int) -> None:
    advice = advice_for(*declared, cores=cores)
    for op, concurrency in zip(declared, advice.concurrency, strict=True):
        keeps_up = op.rate(concurrency, cores) / op.flow
        assert keeps_up >= 0.99 * ENOUGH * min(advice.items_per_second, op.rate(32, cores) / op.flow)
        if concurrency > 1:
            # With a concurrency of one less, it would not keep up, or only just.
            fewer = op.rate(concurrency - 1, cores) / op.flow
            assert fewer < 1.2 * advice.items_per_second
    assert advice.num_threads == sum(advice.concurrency)


@given(st.lists(ops, min_size=1, max_size=5), st.sampled_from([1, 2, 16]))
def test_no_more_is_expected_than_is_possible(declared: list[Op], cores: int) -> None:
    advice = advice_for(*declared, cores=cores)
    for op in declared:
        assert advice.items_per_second <= op.rate(32, cores) / op.flow * 1.001
    assert advice.items_per_second * sum(op.computes * op.flow for op in declared) <= cores * 1.001


def test_stages_that_wait_get_as_many_as_it_takes() -> None:
    advice = advice_for(Op(0.0099, 1e-5), Op(0, 0.002, holds=True))
    # The second stage does 500 items/s, so the first needs a concurrency of 5, and some to spare.
    assert list(advice.concurrency) == [6, 1]
    assert advice.num_threads == 7
    assert advice.items_per_second == pytest.approx(500, rel=0.02)
    assert (advice.verdict.kind, advice.verdict.stage) == ("GIL", "op1")


def test_computing_gets_a_thread_per_core() -> None:
    assert list(advice_for(Op(0, 0.01), cores=4).concurrency) == [4]
    assert list(advice_for(Op(0, 0.01), cores=2).concurrency) == [2]


def test_together_they_need_more_than_the_cores() -> None:
    advice = advice_for(Op(0, 0.01), Op(0, 0.03), cores=4)
    assert advice.items_per_second == pytest.approx(100)
    assert (advice.verdict.kind, advice.verdict.stage, advice.verdict.bound) == ("CPU", "op1", 1.0)


def test_together_they_need_more_than_one_gil() -> None:
    advice = advice_for(Op(0, 0.01, holds=True), Op(0, 0.03, holds=True), cores=8)
    assert advice.items_per_second == pytest.approx(25)
    assert (advice.verdict.kind, advice.verdict.stage) == ("GIL", "op1")


def test_async_stages_need_no_threads() -> None:
    results = [result_of(Op(0.01, 1e-5), "fetch", 4)]
    results.append(ProfileResult("loop", results[0].stats, 1.0, is_async=True))
    advice = advise(results, 4)
    assert advice.num_threads == advice.concurrency[0] == advice.concurrency[1] == 29


def test_noise_does_not_make_ops_that_hold_the_gil_concurrent() -> None:
    plain = result_of(Op(0, 0.001, holds=True), "op", 4)
    first, *others = plain.stats
    lucky = ProfileStats(
        first.concurrency,
        3 * first.qps,
        0.0,
        first.num_inputs,
        first.num_outputs,
        0,
        first.seconds / 3,
        first.busy_seconds,
        first.cpu_seconds,
        1.0,
        0.0,
    )
    assert list(advise([ProfileResult("op", [lucky, *others])], 4).concurrency) == [1]


def test_a_stage_of_which_no_item_came_to_an_end() -> None:
    measured = [ProfileStats(it, 1e5, 0.0, 0, 100_000, 0, 1.0, 1.0, 1.0, 1.0, 0.0) for it in CONCURRENCIES]
    advice = advise([ProfileResult("endless", measured)], 2)
    assert math.isfinite(advice.items_per_second)
    assert advice.num_threads >= 1


def test_a_few_quick_calls_are_no_reason_for_processes(capsys: pytest.CaptureFixture[str]) -> None:
    """Threads had hardly begun, so no more than one was runnable at a time."""
    measured = [
        ProfileStats(it, 1000.0, 0.0, it, it, 0, seconds=0.001 * it, busy_seconds=0.001 * it, cpu_seconds=0.001 * it)
        for it in CONCURRENCIES
    ]
    result = ProfileResult("op", [dataclasses.replace(it, num_runnable=1.0, num_waiting=0.0) for it in measured])
    advice = advise([result], 4)
    assert advice.verdict.kind == "unclear"
    print_profile([result], advice, 4, Console())
    printed = " ".join(capsys.readouterr().out.split())
    assert "ProcessPoolExecutor" not in printed
    assert "raise --num-inputs" in printed


@pytest.mark.parametrize(
    ("hand_over", "said"),
    [
        (None, ""),
        (0.0001, ""),
        (0.002, "make it at most 5.0 times faster"),
        (0.02, "processes gain little here"),
    ],
)
def test_processes_are_advised_with_what_they_cost(
    hand_over: float | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = dataclasses.replace(result_of(Op(0, 0.01, holds=True), "op", 4), hand_over_seconds=hand_over)
    print_profile([result], advise([result], 4), 4, Console())
    printed = " ".join(capsys.readouterr().out.split())
    assert "ProcessPoolExecutorConfig" in printed
    assert said in printed
    assert ("unpickles each result" in printed) == bool(said)


# ---- what a process uses ----


def test_cpu_seconds_counts_work_but_not_waiting() -> None:
    before = cpu_seconds()
    start = time.thread_time()
    while time.thread_time() - start < 0.2:
        pass
    worked = cpu_seconds() - before
    assert 0.19 < worked < 1
    before = cpu_seconds()
    time.sleep(0.2)
    assert cpu_seconds() - before < 0.1


def test_cpu_seconds_counts_children() -> None:
    code = "import time\nwhile time.process_time() < 0.5: pass"
    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert cpu_seconds() - before > 0.45


def test_peak_memory_stays_when_memory_goes() -> None:
    before = max(peak_memory(), psutil.Process().memory_info().rss)
    held = np.ones(before + 64 * MEGABYTES, dtype=np.uint8)
    resident = psutil.Process().memory_info().rss
    del held
    assert peak_memory() == pytest.approx(resident, rel=0.05)


def test_peak_memory_is_not_inherited() -> None:
    held = np.ones(400 * MEGABYTES, dtype=np.uint8)
    code = "from spdl.cli._common.machine import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) < held.nbytes / 2


def test_session_memory_sees_all_processes_of_it() -> None:
    # A parent that holds 40 MB and forks a child that changes them: 80 MB. The sum of the resident sets is larger.
    code = (
        "import mmap, os\n"
        "held = mmap.mmap(-1, 40_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "def fill():\n"
        "    for page in range(0, len(held), mmap.PAGESIZE): held[page] = 1\n"
        "fill()\n"
        "child = os.fork()\n"
        "if not child: fill()\n"
        "print('ready', flush=True)\n"
        "os.read(0, 1)\n"
        "if child: os.waitpid(child, 0)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        memory = session_memory(process.pid)
        process.stdin.write(b"..")
        process.stdin.close()
        process.wait()
    assert memory is not None
    assert 80_000_000 < memory < 130_000_000
    assert session_memory(process.pid) is None


# ---- pip ----


def test_pip_returns_its_output() -> None:
    assert pip("--version").startswith("pip ")


def test_pip_that_is_too_slow_is_told() -> None:
    with pytest.raises(PipError, match=r"^pip took longer than 0 s$"):
        pip("--version", timeout=0.01)


def has_ended(process: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        # The process that has to collect it may take its time.
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    return True


def test_pip_that_is_too_slow_ends_with_all_its_processes(tmp_path: Path) -> None:
    # `pip --python` runs itself once more, with the named interpreter.
    interpreter, number = tmp_path / "python", tmp_path / "number"
    interpreter.write_text(f"#!/bin/sh\necho $$ >{number}\nexec sleep 50\n")
    interpreter.chmod(0o700)
    for timeout in (2, 5, 10, 20):
        with pytest.raises(PipError, match="pip took longer than"):
            pip("--python", str(interpreter), "install", "numpy", timeout=timeout)
        if number.exists() and number.read_text():
            break
    process = int(number.read_text())
    for _ in range(100):
        if has_ended(process):
            break
        time.sleep(0.1)
    assert has_ended(process)


# ---- ranks ----


def test_a_rank_of_which_nothing_is_known_may_be_the_one_that_is_waited_for() -> None:
    # That a verdict is none cannot be brought about for as long as a program is watched.
    kinds = ["slow consumer", "none", "slow consumer", "none"]
    found: Any = [
        (SimpleNamespace(head=SimpleNamespace(pid=rank, ranks={"RANK": str(rank)}, command=(), world_size=4)), kind)
        for rank, kind in enumerate(kinds)
    ]
    verdicts, together = of_all_ranks([(pipeline, Verdict(kind, "", "", "")) for pipeline, kind in found])
    assert together == []
    remedy = (
        "Make the training step faster; a faster loader gains nothing. If the step waits in a collective for ranks "
        "1 and 3, the loader there may be the limit: see its verdict."
    )
    assert [verdict.remedy for _, verdict in verdicts] == [remedy, ""] * 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_command_runs_without_the_streams_that_its_caller_has_closed(closed: str) -> None:
    command = ["sh", "-c", f"{sys.executable} -m spdl ps {closed}"]
    assert subprocess.run(command, check=False).returncode == 0
