import codecs
import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.running import COMMAND

pytest.importorskip("rich", reason="the live view is drawn by rich")

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def run_on_terminal(
    arguments: list[str], *, interrupt_after: str | None = None, kind: str = "xterm-256color"
) -> tuple[str, int]:
    """Run the command on a terminal of its own, and press Ctrl-C once it has shown a text."""
    terminal, side_of_command = pty.openpty()
    environment = os.environ | {"TERM": kind, "COLUMNS": "110", "LINES": "40"}
    shown = ""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=side_of_command,
        stdout=side_of_command,
        stderr=side_of_command,
        env=environment,
        start_new_session=True,
    ) as process:
        os.close(side_of_command)
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and select.select([terminal], [], [], 40)[0]:
            try:
                # A read may end in the middle of a character.
                shown += decoder.decode(os.read(terminal, 65536))
            except OSError:  # Linux raises this when the other side is closed.
                break
            if interrupt_after and re.search(interrupt_after, shown):
                interrupt_after = None
                process.send_signal(2)
        os.close(terminal)
    return shown, process.returncode


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
    arguments = ["bench", "images", str(photos), "--no-peers", "--seconds", "1.8", "--size", "32"]
    shown, status = run_on_terminal(arguments, kind="dumb")
    assert status == 0
    assert "\x1b" not in shown
    # The line is due after a second, and a busy machine may be late with it.
    assert re.search(r"\n   1\.\d s  ", shown)
