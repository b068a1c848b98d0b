"""Files that appear only when they are complete."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import Any

from spdl.io._common.address import not_to_write


def write_file(path: str, content: Any) -> None:
    """Write the bytes of `content` to a new file beside `path`, and give it that name once it is complete.

    An existing file is replaced and keeps its permissions. For a symbolic link, its target is replaced. Anything but a
    regular file, such as a pipe, is opened and written to. After an error the old file is still there, and nothing new.

    Raises:
        OSError: If the file cannot be written; the error names `path`.
    """
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode  # noqa: PTH116 - half the time of Path.stat.
    except OSError:
        mode = None  # If something is wrong, the next call raises.
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as file:  # noqa: PTH123 - half the time of Path.open.
            file.write(content)
        return
    folder, name = os.path.split(target)
    # Hidden, and short even if the name is long: some systems allow only 255 bytes.
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
        # The user does not know the name of the temporary file.
        raise not_to_write(OSError(error.errno, error.strerror, path), path) from None
