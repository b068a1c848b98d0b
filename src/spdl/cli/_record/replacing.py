"""A file that takes the place of another when it is whole."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spdl.cli._common.errors import BAD_INPUT, FAILED, CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

__all__ = ["UnwrittenError", "about", "replacing"]


class UnwrittenError(CommandError):
    """Raised if a file could not be written."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of another at the end, unless something is raised.

    Raises:
        CommandError: There can be no such file.
    """
    # Where that is not possible is said before the program has run for an hour.
    if path.is_dir():
        raise CommandError(f"{path} is a folder: name a file for the trace, such as {path / 'trace.json.gz'}")
    if path.exists() and not path.is_file():
        raise CommandError(
            f"{path} is a pipe or a device, whose place the trace would take: name a file, such as trace.json.gz"
        )
    nameless = _open_nameless(path.parent)
    if nameless is not None:
        with nameless as file:
            yield file
            file.flush()
            with about(path, FAILED):
                _put(file.fileno(), path)
        return
    # Whoever named the file does not know the other one.
    with about(path, BAD_INPUT):
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        with about(path, FAILED):
            Path(temporary).replace(path)
    except BaseException:
        # Its folder may be gone by now. What was raised says more.
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def about(path: Path, exit_status: int) -> Iterator[None]:
    """Raise UnwrittenError in place of OSError."""
    try:
        yield
    except OSError as error:
        raise UnwrittenError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that is there and that you may write"
            " to",
            exit_status=exit_status,
        ) from error


def _open_nameless(folder: Path) -> BinaryIO | None:
    """Open a file without a name, of which nothing is left if this process is killed; None if there are none here."""
    # By its number it is given a name.
    if not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600), "wb")
    except (AttributeError, OSError):
        # Only Linux has it, and not for all file systems. Whatever else is wrong shows with a name, too.
        return None


def _put(descriptor: int, path: Path) -> None:
    """Give a file without a name that of another, whose place it takes."""
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        named = Path(folder, path.name)
        # A link replaces nothing. With a folder's descriptor, which an absolute path ignores, the system follows links.
        os.link(f"/proc/self/fd/{descriptor}", named, src_dir_fd=descriptor, follow_symlinks=True)
        named.replace(path)
