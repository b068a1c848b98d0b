"""Runs the command on a terminal of its own."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import subprocess
import time

from tests.cli.running import COMMAND


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
