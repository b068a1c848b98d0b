"""The file in memory that holds a page."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
from struct import Struct
from typing import TYPE_CHECKING, Any

from .page_folder import SUFFIX, is_private, page_folder
from .page_layout import COPY, HEAD, MAGIC, VERSION, Layout, checksum

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

    def write(self, values: Sequence[float]) -> None:
        """Write the counters in the place of the older of the two copies."""
        self._number = number = self._number + 1
        payload = self._pack(*values)
        at = self._layout.copy_at(number)
        copy = COPY.pack(number, checksum(number, payload)) + payload + COPY.pack(number, 0)[:8]
        self._mapped[at : at + len(copy)] = copy

    def remove(self) -> None:
        """Remove the file. The memory stays until nobody uses it any more."""
        with contextlib.suppress(OSError):
            self._path.unlink()


def make_page_file(
    name: str, about: Mapping[str, Any], *, sources: int, stages: int, rows: int, folder: Path | None = None
) -> PageFile | None:
    """Make the file of a page.

    Args:
        name: Its name in the folder, without the suffix.
        about: What the head says in JSON.
        sources: How many sources the pipeline has.
        stages: How many stages.
        rows: For how many threads there is to be a row.
        folder: Where to make it; the default is `page_folder`.

    Returns:
        The file; None if the system does not let us: a pipeline runs without a page as well.
    """
    folder = folder or page_folder()
    text = json.dumps({**about, "rows": rows}).encode()
    layout = Layout(len(text), sources, stages, rows)
    path = folder / f"{name}{SUFFIX}"
    # Whoever finds the file finds its head complete.
    temporary = folder / f"{name}.new"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        if not is_private(folder):
            return None
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Writing into memory that the file system does not have would end the process.
            os.posix_fallocate(descriptor, 0, layout.size)
            mapped = mmap.mmap(descriptor, layout.size)
        except BaseException:
            temporary.unlink()
            raise
        finally:
            os.close(descriptor)
        head = HEAD.pack(MAGIC, VERSION, checksum(0, text), len(text), layout.size)
        mapped[: HEAD.size + len(text)] = head + text
        temporary.rename(path)
    except (OSError, AttributeError):
        # No place, no permission, or a system without these functions.
        return None
    return PageFile(path, mapped, layout)
