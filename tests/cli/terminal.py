"""Runs the command on a terminal of its own."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.cli.running import COMMAND

if TYPE_CHECKING:
    from pathlib import Path


def run_on_terminal(
    arguments: list[str],
    *,
    interrupt_after: str | None = None,
    kind: str = "xterm-256color",
    columns: int = 110,
    lines: int = 40,
) -> tuple[str, int]:
    """Run the command on a terminal of its own, and press Ctrl-C once it has shown a text."""
    terminal, side_of_command = pty.openpty()
    environment = os.environ | {"TERM": kind, "COLUMNS": str(columns), "LINES": str(lines)}
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
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and select.select([terminal], [], [], 120)[0]:
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


# Presses Ctrl-C on a terminal of its own, whose foreground is the command and the program that it runs.
_TERMINAL = """
import os, pty, sys
pid, terminal = pty.fork()
if not pid:
    os.execv(sys.argv[2], sys.argv[2:])
shown = b""
while sys.argv[1].encode() not in shown:
    shown += os.read(terminal, 1000)
os.write(terminal, bytes([3]))
try:
    while data := os.read(terminal, 1000):
        shown += data
except OSError:
    pass
print(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def press_ctrl_c(after: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command on a terminal that has it and its programs in the foreground, and press Ctrl-C after a text."""
    command = [sys.executable, "-c", _TERMINAL, after, *COMMAND, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
