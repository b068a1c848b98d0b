"""The pages of running pipelines: how they are found, checked and read."""

from __future__ import annotations

import contextlib
import json
import os
import weakref
from collections.abc import Iterator
from math import isfinite
from operator import itemgetter
from pathlib import Path
from struct import Struct
from time import monotonic

from spdl.pipeline._report.page import COLUMNS, CONSUMER, IDENTITY, IDLE, ITEM, THREAD
from spdl.pipeline._report.page_file import (
    COPY,
    HEAD,
    MAGIC,
    SUFFIX,
    VERSION,
    Layout,
    checksum,
    is_private,
    is_unlocked,
    page_folder,
    pid_namespace,
    started_ticks,
)
from spdl.pipeline._report.sample import Sample, ThreadSample, sample_of_page
from spdl.pipeline._report.statistics import PageHead, unpack_head

# No head is longer, and no pipeline has more parts or threads: a damaged page must not take all memory.
_MOST_TEXT = 1 << 20
_MOST_PARTS = 10_000
_MOST_ROWS = 100_000


class PageError(ValueError):
    """Raised if a file is not a page, is damaged, or belongs to another version of the package.

    Example:
        >>> from pathlib import Path
        >>> from spdl.observe import ObservedPipeline, PageError
        >>> import spdl
        >>> try:
        ...     ObservedPipeline(Path(spdl.__file__))
        ... except PageError as error:
        ...     print(error)
        the file is not a pipeline's page
    """


def parse_head(head: bytes, size: int) -> tuple[PageHead, Layout]:
    """Return what the head of a page says, and where everything is in a page of this size, or raise a PageError."""
    if len(head) < HEAD.size:
        raise PageError("the file is too short for a page")
    magic, version, crc, length, written_size = HEAD.unpack_from(head)
    if magic != MAGIC:
        raise PageError("the file is not a pipeline's page")
    if version != VERSION:
        raise PageError(f"the page has version {version}, and this package reads version {VERSION}: use the same one")
    text = head[HEAD.size : HEAD.size + length]
    if length > _MOST_TEXT or len(text) != length or checksum(0, text) != crc or written_size != size:
        raise PageError("the page's head is damaged")
    try:
        about = json.loads(text)
        sources, stages, rows = len(about["sources"]), len(about["stages"]), int(about["rows"])
        if not (0 <= rows <= _MOST_ROWS and sources + stages <= _MOST_PARTS):
            raise ValueError("more parts than a pipeline has")  # noqa: TRY301 - it is damage as any other.
        found, layout = unpack_head(about), Layout(length, sources, stages, rows)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise PageError(f"the page's head is damaged: {error!r}") from error
    if layout.size != size:
        raise PageError("the page has another size than its head says")
    return found, layout


# The seconds, and the least number of looks, to wait for a page whose copies are both being written, or were never
# written: on a busy machine one look alone can take longer.
_SECONDS = 0.1
_LOOKS = 100
_MOST_HEAD = HEAD.size + _MOST_TEXT
# Neither follows a link, nor waits for someone to write into a pipe.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NUMBER = Struct("=Q")


class ObservedPipeline:
    """A pipeline of any process of this user, as its page shows it. The process itself is not asked for anything.

    `find_pipelines` makes it.

    Args:
        path: The file of the page.

    Attributes:
        path: The file of the page.
        head: The constant part: the process, and the names of the stages.

    Raises:
        PageError: If the file is not a page of this version, or is damaged.
        OSError: If it cannot be read.

    Example:
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> import os
        >>> with PipelineBuilder().add_source(range(9)).pipe(str).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     (pipeline,) = find_pipelines(os.getpid())
        ...     print([stage.name for stage in pipeline.head.stages], pipeline.state())
        ['str'] running
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # It is read, not mapped: mapping a file that is cut short would end this process.
        self._descriptor = os.open(path, _FLAGS)
        weakref.finalize(self, os.close, self._descriptor)
        size = os.fstat(self._descriptor).st_size
        self.head, self._layout = parse_head(os.pread(self._descriptor, min(size, _MOST_HEAD), 0), size)
        layout = self._layout
        self._values = Struct(f"={layout.values}d")
        self._threads = Struct(f"={layout.threads}d")

    def state(self) -> str:
        """Return whether it is ``"running"``, has ``"ended"``, or was ``"killed"``: its process has left the page.

        A process has its page locked as long as it runs the program that made it. That is also how one is known that
        runs in another container which shares the folder.
        """
        if os.fstat(self._descriptor).st_nlink == 0:
            return "ended"
        head = self.head
        if is_unlocked(self._descriptor):
            return "killed"
        if not head.started_ticks or head.pid_namespace != pid_namespace():
            return "running"
        # A child that it has forked may still have the lock.
        return "running" if started_ticks(head.pid) == head.started_ticks else "killed"

    def remove(self) -> None:
        """Remove the page of a process that was killed."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    def observe(self) -> Sample:
        """Return what the page says now.

        Raises:
            PageError: If nothing was written yet, or what was written is damaged.
        """
        deadline = monotonic() + _SECONDS
        looks = 0
        while looks < _LOOKS or monotonic() < deadline:
            newest = self._read_newest()
            if newest is not None:
                return self._sample(newest)
            looks += 1
        raise PageError(
            f"{self.path} holds no counters that are whole: the pipeline has only begun, or they are damaged"
        )

    def observe_before(self) -> Sample | None:
        """Return what the counters said when they were written for the last time but one, with the threads as of now.

        For a killed process, the difference shows its last moments. None if they were written once, or not whole.
        """
        whole = self._read_copies()
        return self._sample(min(whole, key=itemgetter(0))[1]) if len(whole) > 1 else None

    def _read_newest(self) -> tuple[float, ...] | None:
        """Return the counters last written, or None if the writer has overwritten them while they were read."""
        whole = self._read_copies()
        if not whole:
            return None
        number, values = max(whole, key=itemgetter(0))
        if len(whole) == 1:
            # The writer may have written this copy again before the other was found to be half written. Its values are
            # then older than at an earlier look, and counters would run backwards.
            again = self._read_copy(number % 2)
            if again is None or again[0] != number:
                return None
        return values

    def _read_copies(self) -> list[tuple[int, tuple[float, ...]]]:
        return [copy for at in (0, 1) if (copy := self._read_copy(at)) is not None]

    def _read_copy(self, at: int) -> tuple[int, tuple[float, ...]] | None:
        layout = self._layout
        copy = os.pread(self._descriptor, layout.copy_size, layout.copy_at(at))
        if len(copy) < layout.copy_size:
            return None
        number, crc = COPY.unpack_from(copy)
        payload = copy[COPY.size : -_NUMBER.size]
        if not number or _NUMBER.unpack_from(copy, COPY.size + len(payload)) != (number,):
            return None
        return (number, self._values.unpack(payload)) if checksum(number, payload) == crc else None

    def _sample(self, values: tuple[float, ...]) -> Sample:
        threads = self._read_threads()
        rows = _groups(threads[1:], self._layout.columns)
        return sample_of_page(
            values,
            self._layout.sources,
            consumer_waiting_since=threads[CONSUMER],
            threads=tuple(self._thread(row) for row in rows if row[THREAD]),
        )

    def _thread(self, row: tuple[float, ...]) -> ThreadSample:
        # Rows have no checksum.
        row = tuple(value if isfinite(value) else 0.0 for value in row)
        latest = max(range(IDLE, len(row)), key=row.__getitem__)
        part = None if latest == IDLE else latest - COLUMNS
        position = source = None
        if part is not None and part >= self._layout.sources:
            item = int(row[ITEM])
            position, source = divmod(item if item >= 0 else -1 - item, max(1, self._layout.sources))
        return ThreadSample(
            thread=int(row[THREAD]),
            identity=int(row[IDENTITY]),
            part=part,
            since=row[latest],
            position=position,
            source=source,
            is_whole=row[ITEM] >= 0,
        )

    def _read_threads(self) -> tuple[float, ...]:
        # A time that is read while it is written is another one: two looks that see the same have seen it whole.
        before, seen = b"", self._threads_now()
        for _ in range(_LOOKS):
            if seen == before:
                break
            before, seen = seen, self._threads_now()
        if len(seen) < self._threads.size:
            raise PageError(f"{self.path} was cut short")
        return self._threads.unpack(seen)

    def _threads_now(self) -> bytes:
        return os.pread(self._descriptor, self._threads.size, self._layout.threads_at)

    def __repr__(self) -> str:
        return f"<ObservedPipeline {self.head.pipeline} of process {self.head.pid} ({self.state()})>"


def _groups(values: tuple[float, ...], size: int) -> Iterator[tuple[float, ...]]:
    return (values[at : at + size] for at in range(0, len(values), size))


def find_pipelines(pid: int | None = None, *, folder: Path | None = None) -> list[ObservedPipeline]:
    """Return the pipelines of this user's processes on this machine that run, and those whose process was killed.

    A pipeline has no page with ``SPDL_OBSERVE=0`` in its environment, and none if memory is short. Other files, and
    pages of another version of the package, are left out: it never raises.

    Args:
        pid: Only pipelines of the process with this number. The default is all processes.
        folder: The folder of the pages. The default is the user's folder.

    Returns:
        The pipelines, by process and number. Each keeps a file open while it exists.

    Example:
        >>> import os
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> with PipelineBuilder().add_source(iter(int, 1)).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     print(len(find_pipelines(os.getpid())))
        1
    """
    folder = page_folder() if folder is None else folder
    if not is_private(folder):
        return []
    found = []
    for path in folder.glob(f"{'*' if pid is None else pid}-*{SUFFIX}"):
        try:
            found.append(ObservedPipeline(path))
        except (OSError, PageError):
            # It has just ended, or is not a page of this package.
            continue
    return sorted(found, key=lambda pipeline: (pipeline.head.pid, pipeline.head.pipeline))
