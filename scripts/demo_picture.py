"""Run `spdl demo` on a terminal; keep its last screen as the README's picture, and its figures as the recorded run.

Run it as `.venv/bin/python scripts/demo_picture.py` after `make demo`, on an otherwise idle machine. It takes as long
as the demo and needs nothing else. It writes docs/images/demo.svg and benchmarks/results/demo.json, both from the same
run. Commit both.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "demo.svg"
COMMAND = ["spdl", "demo", "--peers", "--report", "build/demo", "--json", "benchmarks/results/demo.json"]
WIDTH = 106

# The output of rich: cursor movements, erasures and colours, line ends, and the text between them.
TOKEN = re.compile(r"\x1b\[(?P<argument>[0-9;?]*)(?P<command>[A-Za-z])|(?P<end>\n)|(?P<text>[^\x1b\r\n]+)")


def record() -> str:
    """Run the demo and return everything it wrote to its terminal."""
    terminal, side = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": "60"}
    program = Path(sys.executable).with_name(COMMAND[0])
    written = b""
    with subprocess.Popen([program, *COMMAND[1:]], cwd=ROOT, stdout=side, stderr=side, env=environment) as process:
        os.close(side)
        while True:
            try:
                written += os.read(terminal, 65536)
            except OSError:  # On Linux: the other side is closed.
                break
    os.close(terminal)
    if process.returncode:
        raise SystemExit(f"the demo failed (exit status {process.returncode}):\n{play(written.decode())}")
    return written.decode()


def play(written: str) -> str:
    """Return the final content of the screen, with colours and without erased text."""
    rows = [""]
    row = 0
    for token in TOKEN.finditer(written):
        match token["command"]:
            case "A":
                row = max(0, row - int(token["argument"] or 1))
            case "K":
                rows[row] = ""
            case "m":
                rows[row] += token[0]
        if token["end"]:
            row += 1
            rows += [""] * (row + 1 - len(rows))
        rows[row] += token["text"] or ""
    return "\n".join(rows).strip("\n")


def draw(screen: str, title: str) -> str:
    """Return the screen as SVG."""
    console = Console(record=True, width=WIDTH, force_terminal=True, file=io.StringIO())
    console.print(Text.from_ansi(screen))
    # With a fixed name, two pictures differ only in the measurements.
    return console.export_svg(title=title, unique_id="demo")


def main() -> None:
    """Run the demo and write the picture."""
    PICTURE.write_text(draw(play(record()), f"$ {shlex.join(COMMAND)}"), encoding="utf-8")


if __name__ == "__main__":
    main()
