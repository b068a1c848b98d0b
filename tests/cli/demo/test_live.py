import re
from pathlib import Path

import pytest
from tests.cli.terminal import run_on_terminal

pytest.importorskip("rich", reason="the live view is drawn by rich")

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
FRAME = r"(\d+\.\d) s   ([\d,]+) images   ([\d,.]+) images/s   now ([\d,.]+) images/s"


def bench(photos: Path, *, until: str, kind: str = "xterm-256color") -> tuple[str, int]:
    """Load photos until Ctrl-C, which is pressed when something has been shown."""
    arguments = ["bench", "images", str(photos), "--no-peers", "--seconds", "3600", "--size", "32"]
    return run_on_terminal(arguments, interrupt_after=until, kind=kind)


def test_live_table_on_a_terminal_moves_and_ctrl_c_gives_the_cursor_back(photos: Path) -> None:
    shown, status = bench(photos, until=rf"(?s)({FRAME}.*){{4}}")
    assert status == 130
    frames = re.findall(FRAME, shown)
    assert len(frames) >= 4
    images = [int(frame[1].replace(",", "")) for frame in frames]
    assert images == sorted(images)
    assert images[-1] > images[0]
    live, _, rest = shown.rpartition(SHOW_CURSOR)
    assert HIDE_CURSOR in live
    assert HIDE_CURSOR not in rest
    assert "bottleneck" in rest
    assert "interrupted: the figures cover the run up to then" in rest
    assert "Traceback" not in shown


def test_dumb_terminal_gets_plain_lines(photos: Path) -> None:
    shown, status = bench(photos, until=r"\n   \d+\.\d s  ", kind="dumb")
    assert status == 130
    assert "\x1b" not in shown
