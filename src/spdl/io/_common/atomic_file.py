"""Files that appear only when they are complete."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import Any

from spdl._files import not_to_write


class NewFile:
    """A new file beside `path`, which gets that name once it is complete.

    An existing file is replaced and keeps its permissions. For a symbolic link, its target is replaced. Anything but a
    regular file, such as a pipe, is opened and written to.

    Attributes:
        descriptor: The file's number in this process, open for writing, and for reading if it is a new one.

    Raises:
        OSError: If the file cannot be made; the error names `path`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._process = os.getpid()
        self._target = os.path.realpath(path)
        self._temporary: str | None = None
        self._mode: int | None
        try:
            self._mode = os.stat(self._target).st_mode  # noqa: PTH116 - half the time of Path.stat.
        except OSError:
            self._mode = None  # If something is wrong, the next call raises.
        if self._mode is not None and not stat.S_ISREG(self._mode):
            self.descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            return
        folder, name = os.path.split(self._target)
        # Hidden, and short even if the name is long: some systems allow only 255 bytes.
        hidden = f".{os.fsdecode(os.fsencode(name)[:40])}.{secrets.token_hex(8)}"
        temporary = os.path.join(folder, hidden)  # noqa: PTH118
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
                    os.chmod(descriptor, stat.S_IMODE(self._mode))  # noqa: PTH101 - a descriptor.
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


def write_file(path: str, content: Any) -> None:
    """Write the bytes of `content` to a `NewFile`. After an error the old file is still there, and nothing new.

    Raises:
        OSError: If the file cannot be written; the error names `path`.
    """
    new = NewFile(path)
    try:
        with open(new.descriptor, "wb", closefd=False) as file:
            file.write(content)
    except OSError as error:
        new.discard()
        raise not_to_write(OSError(error.errno, error.strerror, path), path) from None
    except BaseException:
        new.discard()
        raise
    new.complete()
