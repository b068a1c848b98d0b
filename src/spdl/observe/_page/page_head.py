"""What the head of a page says of the process and its pipeline, checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from spdl.pipeline._metrics.loader_arguments import LoaderArguments
from spdl.pipeline._metrics.page_columns import COLUMNS
from spdl.pipeline._metrics.page_layout import HEAD, MAGIC, VERSION, Layout, checksum

__all__ = ["PageError", "PageHead", "StageHead", "parse_head"]

# No head is longer, and no pipeline has more parts or threads: a damaged page must not take all memory.
_MOST_TEXT = 1 << 20
_MOST_PARTS = 10_000
_MOST_ROWS = 100_000
_MOST_DIGITS = 9


class PageError(ValueError):
    """Raised if a file is no page, is damaged, or is of another version of the package.

    Example:
        >>> from pathlib import Path
        >>> from spdl.observe import ObservedPipeline, PageError
        >>> import spdl
        >>> try:
        ...     ObservedPipeline(Path(spdl.__file__))
        ... except PageError as error:
        ...     print(error)
        the file is no page of a pipeline
    """


@dataclass(frozen=True, slots=True)
class StageHead:
    """What does not change of a stage.

    Attributes:
        name: Its name. Others of the pipeline may have the same.
        kind: The class that runs it.
        op: The op's name.
        served_by: What runs the op: ``"threads"`` of the pipeline, the event ``"loop"``, the user's ``"executor"``, or
            the ``"engine"`` itself.
        ordered: Whether its results come in the order of its items.
        adjustable: Whether its concurrency can be changed.
        declared: Whether the user has declared it.
        feeders: What it takes items from: indices into the pipeline's parts, sources first.
        processes: How many other processes it hands items over to, or its op runs in; 0 if none.
        copies: How many workers of a region run it, each with as many slots; 0 if it is in no region.

    Example:
        >>> import os, time
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> endless = iter(int, 1)
        >>> with PipelineBuilder().add_source(endless).pipe(str).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     stages = find_pipelines(os.getpid())[0].head.stages
        >>> stages[0].name, stages[0].served_by, stages[0].feeders
        ('str', 'threads', (0,))
    """

    name: str
    kind: str
    op: str
    served_by: str
    ordered: bool
    adjustable: bool
    declared: bool
    feeders: tuple[int, ...]
    processes: int = 0
    copies: int = 0


@dataclass(frozen=True, slots=True)
class PageHead:
    """What does not change while a pipeline runs.

    Attributes:
        pid: The process.
        started_ticks: When the process began, in clock ticks since the machine did; 0 if it did not know.
        pid_namespace: What the process's number belongs to; 0 if it did not know.
        pipeline: The pipeline's number in the process.
        command: The command line of the process, without the interpreter and its options, and shortened.
        ranks: What its launcher has told it of its place in the job, such as ``LOCAL_RANK``.
        cores: How many cores the process may use.
        gil: Whether its interpreter has a GIL.
        sources: The names of the sources.
        stages: The stages.
        layout: Where everything is in the page.
        loader: What the arguments of the ready-made loader that runs it change of it; None if the program declares the
            pipeline itself.

    Example:
        >>> import os, time
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> endless = iter(int, 1)
        >>> with PipelineBuilder().add_source(endless).pipe(str).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     head = find_pipelines(os.getpid())[0].head
        >>> head.pid == os.getpid(), head.sources
        (True, ('src',))
    """

    pid: int
    started_ticks: int
    pid_namespace: int
    pipeline: int
    command: tuple[str, ...]
    ranks: dict[str, str]
    cores: float
    gil: bool
    sources: tuple[str, ...]
    stages: tuple[StageHead, ...]
    layout: Layout
    loader: LoaderArguments | None = None

    @property
    def world_size(self) -> int:
        """How many ranks its job has; 1 if its launcher has not told."""
        return self._told("WORLD_SIZE")

    @property
    def local_world_size(self) -> int:
        """How many of these run on its machine; 1 if its launcher has not told."""
        return self._told("LOCAL_WORLD_SIZE")

    def _told(self, name: str) -> int:
        told = self.ranks.get(name, "")
        # Digits of other scripts, and those of a number that is too long, are none that a launcher writes.
        return max(1, int(told)) if told.isascii() and told.isdecimal() and len(told) <= _MOST_DIGITS else 1


def parse_head(head: bytes, size: int) -> PageHead:
    """Return what the head of a page says.

    Args:
        head: The first bytes of the file: all of it, if it is short.
        size: How many bytes the file has.

    Raises:
        PageError: If it is no page of this version, or damaged.
    """
    if len(head) < HEAD.size:
        raise PageError("the file is too short for a page")
    magic, version, crc, length, written_size = HEAD.unpack_from(head)
    if magic != MAGIC:
        raise PageError("the file is no page of a pipeline")
    if version != VERSION:
        raise PageError(f"the page has version {version}, and this package reads version {VERSION}: use the same one")
    text = head[HEAD.size : HEAD.size + length]
    if length > _MOST_TEXT or len(text) != length or checksum(0, text) != crc or written_size != size:
        raise PageError("the page's head is damaged")
    try:
        found = _parse(json.loads(text), length)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise PageError(f"the page's head is damaged: {error!r}") from error
    if found.layout.size != size:
        raise PageError("the page has another size than its head says")
    return found


def _parse(about: dict[str, Any], length: int) -> PageHead:
    sources, stages, rows = about["sources"], about["stages"], about["rows"]
    if not (0 <= rows <= _MOST_ROWS and len(sources) + len(stages) <= _MOST_PARTS):
        raise ValueError("more parts than a pipeline has")
    parts = len(sources) + len(stages)
    # Pages of earlier releases have none.
    loader = about.get("loader")
    return PageHead(
        pid=int(about["pid"]),
        started_ticks=int(about["started_ticks"]),
        pid_namespace=int(about["pid_namespace"]),
        pipeline=int(about["pipeline"]),
        command=tuple(map(str, about["command"])),
        ranks={str(name): str(rank) for name, rank in about["ranks"].items()},
        cores=float(about["cores"]),
        gil=bool(about["gil"]),
        sources=tuple(map(str, sources)),
        stages=tuple(_stage(stage, parts) for stage in stages),
        layout=Layout(length, len(sources), len(stages), int(rows)),
        loader=None if loader is None else LoaderArguments.unpack(loader),
    )


def _stage(about: dict[str, Any], parts: int) -> StageHead:
    feeders = tuple(int(column) - COLUMNS for column in about["feeders"])
    if not all(0 <= feeder < parts for feeder in feeders):
        raise ValueError("a stage takes items from what is not there")
    return StageHead(
        name=str(about["name"]),
        kind=str(about["kind"]),
        op=str(about["op"]),
        served_by=str(about["served_by"]),
        ordered=bool(about["ordered"]),
        adjustable=bool(about["adjustable"]),
        declared=bool(about["declared"]),
        feeders=feeders,
        # Pages of earlier releases have neither.
        processes=int(about.get("processes", 0)),
        copies=int(about.get("copies", 0)),
    )
