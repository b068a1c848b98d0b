"""The file that `--json` names, or standard output for `-`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from spdl.cli._common.console import Console
from spdl.cli._common.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["STANDARD_OUTPUT", "check_writable", "console_beside", "write_figures"]

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
