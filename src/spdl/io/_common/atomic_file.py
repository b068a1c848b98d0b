"""Writing a file so that nobody ever sees a part of it."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import Any

from spdl.io._common.address import not_to_write


def write_file(path: str, content: Any) -> None:
    """Write the bytes of `content` to a new file beside `path`, and give it that name once it is complete.

    A file that was there is replaced and keeps its permissions; of a symbolic link, what it points to is. What is no
    regular file, such as a pipe, is written to as it is. An error leaves what was there, and nothing new.

    Raises:
        OSError: If the file cannot be written; the error names `path`.
    """
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode  # noqa: PTH116 - half the time of Path.stat.
    except OSError:
        mode = None  # What is wrong, if anything, the next call says.
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as file:  # noqa: PTH123 - half the time of Path.open.
            file.write(content)
        return
    folder, name = os.path.split(target)
    # Hidden, and short whatever the name's length: some systems allow 255 bytes for a whole name.
    temporary = os.path.join(folder, f".{os.fsdecode(os.fsencode(name)[:40])}.{secrets.token_hex(8)}")  # noqa: PTH118
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123
                file.write(content)
                if mode is not None:
                    os.chmod(descriptor, stat.S_IMODE(mode))  # noqa: PTH101 - a descriptor.
            os.replace(temporary, target)  # noqa: PTH105
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            raise
    except OSError as error:
        # Not the temporary file's name, which nobody knows.
        raise not_to_write(OSError(error.errno, error.strerror, path), path) from None
