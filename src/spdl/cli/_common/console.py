"""The output of the commands, their errors, and the JSON that they write."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from spdl.cli._common.text import Table, padded, printable, width_of

if TYPE_CHECKING:
    import rich.console


BAD_INPUT = 2
"""Exit status for bad input from the user: a folder, an option, a place to write to (argparse uses 2 as well)."""

FAILED = 1
"""Exit status for a failure despite correct input."""

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 + SIGINT, as shells report it."""


class CommandError(Exception):
    """Raised by a command when the user can fix the situation. `spdl` prints the message on stderr and exits."""

    def __init__(self, message: str, *, exit_status: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_status = exit_status


LIVE_HINT = "For a live table on this terminal: pip install 'spdl-turbo[demo]'"


class Console:
    """Standard output, or standard error for what people read while a program reads standard output.

    `rich` is None if the output is not a terminal, or rich is not installed; the latter is what `lacks_rich` says.
    """

    def __init__(self, *, on_stderr: bool = False) -> None:
        self.rich: rich.console.Console | None = None
        self.lacks_rich = False
        self._on_stderr = on_stderr
        self._is_terminal = self._stream.isatty()
        if self._is_terminal and os.environ.get("TERM") != "dumb":
            try:
                from rich.console import Console as RichConsole  # noqa: PLC0415
            except ImportError:
                self.lacks_rich = True
                return
            self.rich = RichConsole(highlight=False, emoji=False, stderr=on_stderr)

    @property
    def _stream(self) -> TextIO:
        # Looked up again each time, as a program that calls this command may redirect it.
        return sys.stderr if self._on_stderr else sys.stdout

    @property
    def width(self) -> int | None:
        """How many characters a line holds; None if the output is not a terminal, and `COLUMNS` is not set."""
        if self.rich is not None:
            return self.rich.width
        if self._is_terminal:
            return shutil.get_terminal_size().columns
        columns = os.environ.get("COLUMNS", "")
        return int(columns) if columns.isdecimal() and int(columns) else None

    def print(self, line: str = "") -> None:
        """Print a line of text, with unprintable characters escaped. On a terminal it is broken between words."""
        line = printable(line)
        if self._is_terminal and self.width is not None and len(line) > self.width:
            line = _folded(line, self.width)
        print(line, file=self._stream, flush=True)

    def hint_at_rich(self) -> None:
        """Say how to get a live view, if this is a terminal and the view is missing only for that."""
        if self.lacks_rich:
            self.print(LIVE_HINT)

    def table(self, table: Table) -> None:
        print(table.plain(self.width), end="\n\n", file=self._stream, flush=True)

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        width = max(width_of(name) for name, _ in facts)
        for name, fact in facts:
            self.print(f"{padded(name, width)}  {fact}")

    def working(self, what: str) -> AbstractContextManager[object]:
        return nullcontext() if self.rich is None else self.rich.status(what)


def say(text: str) -> None:
    Console(on_stderr=True).print(f"spdl: {text}")


def _folded(line: str, width: int) -> str:
    """Return the line in several, at most so wide. A word that is wider, such as a path, stays whole."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line, width, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False)


STANDARD_OUTPUT = Path("-")


def check_writable(file: Path | None) -> None:
    """Check that figures can be written to a file, before anything is measured."""
    if file is None or file == STANDARD_OUTPUT:
        return
    place = file if file.exists() else file.absolute().parent
    if file.is_dir() or not os.access(place, os.W_OK):
        raise CommandError(f"--json {file} cannot be written: name a file in a folder you may write to.")


def console_beside(file: Path | None) -> Console:
    return Console(on_stderr=file == STANDARD_OUTPUT)


def write_figures(file: Path | None, figures: Mapping[str, object], console: Console) -> None:
    if file is None:
        return
    text = json.dumps(figures, indent=2) + "\n"
    if file == STANDARD_OUTPUT:
        print(text, end="", flush=True)
    else:
        file.write_text(text, encoding="utf-8")
        console.print(f"wrote {file}")
