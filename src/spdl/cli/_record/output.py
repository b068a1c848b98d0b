"""The file that a trace goes into. It takes the place of another when it is whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from spdl._files import replaced
from spdl._trace_file import trace_content
from spdl.cli._common.console import BAD_INPUT, FAILED, CommandError


class UnwrittenError(CommandError):
    """Raised if a file could not be written."""


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written, before the program has run for an hour.

    Raises:
        CommandError: There can be no such file.
    """
    if path.is_dir():
        raise CommandError(f"{path} is a folder: name a file for the trace, such as {path / 'trace.json.gz'}")
    if path.exists() and not path.is_file():
        raise CommandError(
            f"{path} is a pipe or a device, whose place the trace would take: name a file, such as trace.json.gz"
        )
    with _about(path, BAD_INPUT):
        tempfile.TemporaryFile(dir=path.parent).close()
        if path.exists():
            os.close(os.open(path, os.O_WRONLY))


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Yield what the content of the trace is written to.

    Raises:
        UnwrittenError: The file cannot be written.
    """
    with _about(path, FAILED), replaced(path) as file, trace_content(path, file) as content:
        yield content


@contextmanager
def _about(path: Path, exit_status: int) -> Iterator[None]:
    # The user named the file, and does not know its temporary name.
    try:
        yield
    except OSError as error:
        raise UnwrittenError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that is there and that you may write"
            " to",
            exit_status=exit_status,
        ) from error
