"""The user's cache folder, and files that take the place of others when they are whole."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


class NewFile:
    """A new file beside `path`, which gets that name once it is complete.

    An existing file is replaced and keeps its permissions, even if it is mapped or being read: its readers keep the old
    one. For a symbolic link, its target is replaced. Anything but a regular file, such as a pipe, is opened and written
    to.

    Attributes:
        descriptor: The file's number in this process, open for writing, and for reading if it is a new one.

    Raises:
        OSError: If the file cannot be made; the error names `path`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fsdecode(path)
        self._process = os.getpid()
        self._target = os.path.realpath(self._path)
        self._temporary: str | None = None
        self._mode: int | None = None
        with suppress(FileNotFoundError):
            self._mode = os.stat(self._path).st_mode  # noqa: PTH116 - half the time of Path.stat.
        if self._mode is not None:
            if not stat.S_ISREG(self._mode):
                self.descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
                return
            if not os.access(self._path, os.W_OK):
                # A file need not be writable to be replaced, but a read-only file must stay.
                os.close(os.open(self._path, os.O_RDWR | os.O_CLOEXEC))  # Raises.
        # Hidden, and short even if the file's name is long: some systems allow only 255 bytes.
        folder = os.path.dirname(self._target)  # noqa: PTH120
        temporary = os.path.join(folder, f".{os.urandom(8).hex()}.tmp")  # noqa: PTH118
        try:
            self.descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._renamed(error) from None
        self._temporary = temporary

    def complete(self) -> None:
        """Give the file its name.

        Raises:
            OSError: If that fails; the error names `path`, and nothing new is there.
        """
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor < 0:
            return
        try:
            try:
                if self._temporary is not None and self._mode is not None:
                    os.fchmod(descriptor, stat.S_IMODE(self._mode))
            finally:
                os.close(descriptor)
            if self._temporary is not None:
                os.replace(self._temporary, self._target)  # noqa: PTH105
        except OSError as error:
            self._remove()
            raise self._renamed(error) from None
        except BaseException:
            self._remove()
            raise

    def discard(self) -> None:
        """Remove the file, unless it is complete. The old one is still there."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)
            if os.getpid() == self._process:  # A forked child drops its copy of the object, not the file.
                self._remove()

    def _remove(self) -> None:
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary)  # noqa: PTH108

    def _renamed(self, error: OSError) -> OSError:
        # The user does not know the name of the temporary file.
        return not_to_write(OSError(error.errno, error.strerror, self._path), self._path)


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a `NewFile` that is complete at the end of the block, and discarded if the block raises.

    Raises:
        OSError: If the file cannot be made or written; the error names `path`.
    """
    new = NewFile(path)
    try:
        with naming(path), open(new.descriptor, "wb", closefd=False) as file:
            yield file
        new.complete()
    finally:
        # Nothing is left to discard if it is complete.
        new.discard()


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
