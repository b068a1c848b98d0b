"""The errors of stores."""

from __future__ import annotations

import errno

from spdl._shown import escaped

__all__ = ["StoreError", "not_found"]


class StoreError(OSError):
    """Raised by a store that cannot read something for another reason than that it is missing.

    The message names the object and the reason. What was tried in vain before is in it, too. An object that does not
    exist is a `FileNotFoundError`.

    Example:
        >>> import os, tempfile
        >>> from spdl.store import LocalStore
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open(os.path.join(folder, "three.bin"), "wb") as file:
        ...         _ = file.write(b"abc")
        ...     try:
        ...         LocalStore(folder).get_ranges("three.bin", [2], [5])
        ...     except StoreError as error:
        ...         print(str(error).partition(": ")[2])
        it has 3 bytes, but bytes 2 to 7 were asked for
    """

    def __str__(self) -> str:
        # Names of objects and answers of servers are in it.
        return escaped(super().__str__())


def not_found(path: str, store: str) -> FileNotFoundError:
    """Return the error for an object that is missing in a store, which is named by its repr."""
    return FileNotFoundError(errno.ENOENT, f"No such object in {store}", path)
