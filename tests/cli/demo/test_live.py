import re
from pathlib import Path

import pytest
from tests.cli.terminal import run_on_terminal
from tests.delays import tolerates_delays

pytest.importorskip("rich", reason="the live view is drawn by rich")

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@tolerates_delays
def test_live_table_on_a_terminal(photos: Path) -> None:
    arguments = ["bench", "images", str(photos), "--no-peers", "--seconds", "1.5", "--size", "32"]
    shown, status = run_on_terminal(arguments)
    assert status == 0
    frames = re.findall(r"(\d+\.\d) s   ([\d,]+) images   ([\d,.]+) images/s   now ([\d,.]+) images/s", shown)
    assert len(frames) >= 4
    images = [int(frame[1].replace(",", "")) for frame in frames]
    assert images == sorted(images)
    assert images[-1] > images[0]
    live, _, rest = shown.rpartition(SHOW_CURSOR)
    assert HIDE_CURSOR in live
    assert HIDE_CURSOR not in rest
    assert "bottleneck" in rest


def test_ctrl_c_gives_the_cursor_back(photos: Path) -> None:
    arguments = ["bench", "images", str(photos), "--no-peers", "--seconds", "40", "--size", "32"]
    shown, status = run_on_terminal(arguments, interrupt_after=r"0\.[5-9] s   ")
    assert status == 130
    assert shown.rindex(SHOW_CURSOR) > shown.rindex(HIDE_CURSOR)
    assert "interrupted: the figures cover the run up to then" in shown
    assert "Traceback" not in shown


def test_dumb_terminal_gets_plain_lines(photos: Path) -> None:
    arguments = ["bench", "images", str(photos), "--no-peers", "--seconds", "3", "--size", "32"]
    shown, status = run_on_terminal(arguments, kind="dumb")
    assert status == 0
    assert "\x1b" not in shown
    # A line is due each second, and a busy machine may be late with it.
    assert re.search(r"\n   \d\.\d s  ", shown)
