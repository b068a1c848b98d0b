"""The file in memory that holds a page."""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
from struct import Struct
from typing import TYPE_CHECKING, Any

from .page_folder import NEW, SUFFIX, is_private, page_folder
from .page_layout import COPY, HEAD, MAGIC, VERSION, Layout, checksum
from .sample import page_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["PageFile", "make_page_file"]


class PageFile:
    """The file of a page, mapped into this process.

    The mapping ends with the last row that is not released, not before: a thread would write into what is not there.

    Attributes:
        consumer: Where since when a consumer waits.
        rows: The rows for threads.
    """

    def __init__(self, path: Path, mapped: mmap.mmap, layout: Layout) -> None:
        self._path = path
        self._mapped = mapped
        self._layout = layout
        self._number = 0
        self._pack = Struct(f"={layout.values}d").pack
        floats = memoryview(mapped)[layout.threads_at : layout.copy_at(0)].cast("d")
        self.consumer = floats[:1]
        columns = layout.columns
        self.rows = [floats[at : at + columns] for at in range(1, layout.threads, columns)]

    def write_head(self, head: bytes) -> None:
        """Write what never changes."""
        self._mapped[: len(head)] = head

    def write_counters(self, engine: object, now: float) -> None:
        """Write an engine's counters as they are now."""
        self.write(page_values(engine, now))

    def write(self, values: Sequence[float]) -> None:
        """Write the counters, as `page_values` returns them, in the place of the older of the two copies."""
        self._number = number = self._number + 1
        payload = self._pack(*values)
        at = self._layout.copy_at(number)
        copy = COPY.pack(number, checksum(number, payload)) + payload + COPY.pack(number, 0)[:8]
        self._mapped[at : at + len(copy)] = copy

    def remove(self) -> None:
        """Remove the file. The memory stays until nobody uses it any more."""
        with contextlib.suppress(OSError):
            self._path.unlink()


def make_page_file(name: str, about: Mapping[str, Any], *, rows: int, folder: Path | None = None) -> PageFile | None:
    """Make the file of a page.

    Args:
        name: Its name in the folder, without the suffix.
        about: What the head says in JSON.
        rows: For how many threads there is to be a row.
        folder: Where to make it; the default is `page_folder`.

    Returns:
        The file; None if the system does not let us: a pipeline runs without a page as well.
    """
    folder = folder or page_folder()
    text = json.dumps({**about, "rows": rows}).encode()
    layout = Layout(len(text), len(about["sources"]), len(about["stages"]), rows)
    path = folder / f"{name}{SUFFIX}"
    # Whoever finds the file finds its head complete.
    temporary = folder / f"{name}{NEW}"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        if not is_private(folder):
            return None
        temporary.unlink(missing_ok=True)
        page = PageFile(path, _map(temporary, layout.size), layout)
        page.write_head(HEAD.pack(MAGIC, VERSION, checksum(0, text), len(text), layout.size) + text)
        temporary.rename(path)
    except (OSError, AttributeError):
        # No place, no permission, or a system without these functions.
        return None
    return page


def _map(path: Path, size: int) -> mmap.mmap:
    """Make a file of this size that nobody else can read, and map it."""
    try:
        with open(path, "x+b", buffering=0, opener=_open_private) as file:
            # The lock lasts as long as the mapping.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Writing into memory that the file system does not have would end the process.
            os.posix_fallocate(file.fileno(), 0, size)
            return mmap.mmap(file.fileno(), size)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
