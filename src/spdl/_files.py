"""The user's cache folder, and files that take the place of others when they are whole."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.


def cache_folder() -> Path:
    """Return `$XDG_CACHE_HOME/spdl`, or `~/.cache/spdl`. The folder need not exist yet."""
    # The specification says to ignore a relative path.
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "spdl"


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Keep other processes out while this one makes a file or folder. A lock file remains beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


_PROTOCOL = re.compile(r"([A-Za-z0-9+-]+)://")


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that replaces the one at `path` when it is complete, and never if writing fails.

    Readers and mappings of the old file keep it, even if it is the array that is being written. Anything but a regular
    file, such as a pipe, is opened and written to.
    """
    with naming(path):
        yield from _replaced(path)


def _replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    try:
        status = os.stat(path)  # noqa: PTH116 - takes what os.fspath takes.
    except FileNotFoundError:
        mode = None
    else:
        if not stat.S_ISREG(status.st_mode):
            with open(path, "wb") as file:  # noqa: PTH123 - half the time of Path.open.
                yield file
            return
        mode = stat.S_IMODE(status.st_mode)
        if not os.access(path, os.W_OK):
            # A file need not be writable to be replaced, but a read-only file must stay.
            open(path, "r+b").close()  # noqa: PTH123 - raises.
    # The target of a link is replaced, not the link.
    target = os.path.realpath(os.fsdecode(path))
    folder = os.path.dirname(target)  # noqa: PTH120
    temporary = os.path.join(folder, f".{os.urandom(8).hex()}.tmp")  # noqa: PTH118
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        # The user does not know the name of the new file.
        error.filename = folder
        raise not_to_write(error, path) from None
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor.
            if mode is not None:
                os.fchmod(descriptor, mode)
            yield file
        os.replace(temporary, target)  # noqa: PTH105
    except BaseException:
        os.unlink(temporary)  # noqa: PTH108
        raise


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in an error that names none: the error of a full disk says only which call failed."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fsdecode(path)
        raise


def not_to_write(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """Return the error for a path that could not be written: the given one, or for an address one with a remedy."""
    name = os.fsdecode(path)
    protocol = _PROTOCOL.match(name)
    if error.errno != errno.ENOENT or protocol is None:
        return error
    said = f'the protocol "{protocol[1]}" is not in this build, which writes files'
    return FileNotFoundError(errno.ENOENT, f"{said}. Write one, and send it, for instance with fsspec", name)
