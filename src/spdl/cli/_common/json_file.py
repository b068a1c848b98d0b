"""The file that `--json` names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spdl.cli._common.errors import CommandError

if TYPE_CHECKING:
    from pathlib import Path


def check_writable(file: Path | None) -> None:
    """Check that figures can be written to a file, before anything is measured.

    Raises:
        CommandError: They cannot.
    """
    if file is None:
        return
    place = file if file.exists() else file.absolute().parent
    if file.is_dir() or not os.access(place, os.W_OK):
        raise CommandError(f"--json {file} cannot be written: name a file in a folder you may write to.")
