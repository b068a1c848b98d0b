"""The output of the commands, their errors, and the JSON that they write."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from spdl.cli._common.text import padded, printable, width_of

if TYPE_CHECKING:
    import rich.console

    from spdl.cli._common.table import Table


BAD_INPUT = 2
"""Exit status for bad input from the user: a folder, an option, a place to write to (argparse uses 2 as well)."""

FAILED = 1
"""Exit status for a failure despite correct input."""

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 + SIGINT, as shells report it."""


class CommandError(Exception):
    """Raised by a command when the user can fix the situation. `spdl` prints the message on stderr and exits.

    Attributes:
        exit_status: The exit status of the process.
    """

    def __init__(self, message: str, *, exit_status: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_status = exit_status


_STANDARD = {"stdout": 1, "stderr": 2}


def prepare_streams() -> None:
    """Open the streams that the caller has closed. Escape characters that the terminal's encoding lacks."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_what_is_closed() -> None:
    # Otherwise the next file that is opened, here or in a child, becomes the standard output and receives the text.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= max(_STANDARD.values()):
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - the signature is the system's.
    os.close(descriptor)
    for name, number in _STANDARD.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


LIVE_HINT = "For a live table on this terminal: pip install 'spdl-turbo[demo]'"


class Console:
    """Standard output, or standard error for what people read while a program reads standard output.

    Args:
        on_stderr: Whether it is standard error.

    Attributes:
        rich: The rich console. None if the output is not a terminal, or rich is not installed.
        lacks_rich: Whether the output is a terminal on which rich would draw, if it were installed.
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
        if self.rich is None:
            print(line, file=self._stream, flush=True)
        else:
            self.rich.print(line, markup=False, soft_wrap=True)

    def hint_at_rich(self) -> None:
        """Say how to get a live view, if this is a terminal and the view is missing only for that."""
        if self.lacks_rich:
            self.print(LIVE_HINT)

    def table(self, table: Table) -> None:
        """Print a table as a rich table, or as plain lines, with an empty line below it."""
        if self.rich is None:
            print(table.plain(self.width), end="\n\n", file=self._stream, flush=True)
        else:
            self.rich.print(table.rich(self.rich.width))
            self.rich.print()

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Print pairs of a name and its value, one pair per line, with the values aligned."""
        width = max(width_of(name) for name, _ in facts)
        for name, fact in facts:
            self.print(f"{padded(name, width)}  {fact}")

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show on a terminal that work is going on until the block ends."""
        if self.rich is None:
            yield
            return
        with self.rich.status(what):
            yield

    def track(self, items: Sequence[Any], title: str) -> Iterator[Any]:
        """Yield the items and show the progress: a bar on a terminal, else a line at every quarter."""
        if self.rich is not None:
            from rich.progress import track  # noqa: PLC0415

            yield from track(items, title, console=self.rich, transient=True)
            return
        quarter = -(-len(items) // 4)
        for index, item in enumerate(items):
            if index % quarter == 0:
                self.print(f"{title}: {index} of {len(items)}")
            yield item
        self.print(f"{title}: done")


def say(text: str) -> None:
    """Print a message of the command itself on standard error."""
    Console(on_stderr=True).print(f"spdl: {text}")


def _folded(line: str, width: int) -> str:
    """Return the line in several, at most so wide. A word that is wider, such as a path, stays whole."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line,
        width,
        drop_whitespace=True,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


STANDARD_OUTPUT = Path("-")


def check_writable(file: Path | None) -> None:
    """Check that figures can be written to a file, before anything is measured.

    Raises:
        CommandError: They cannot.
    """
    if file is None or file == STANDARD_OUTPUT:
        return
    place = file if file.exists() else file.absolute().parent
    if file.is_dir() or not os.access(place, os.W_OK):
        raise CommandError(f"--json {file} cannot be written: name a file in a folder you may write to.")


def console_beside(file: Path | None) -> Console:
    """Return the console for what people read: standard error if the figures go to standard output."""
    return Console(on_stderr=file == STANDARD_OUTPUT)


def write_figures(file: Path | None, figures: Mapping[str, object], console: Console) -> None:
    """Write figures to the file, if there is one, and say so on the console."""
    if file is None:
        return
    text = json.dumps(figures, indent=2) + "\n"
    if file == STANDARD_OUTPUT:
        print(text, end="", flush=True)
    else:
        file.write_text(text, encoding="utf-8")
        console.print(f"wrote {file}")
