"""What does not change of a pipeline while it runs: the process, the stages, the loader's arguments.

Statistics and verdicts read it next to a `Sample`. The page has it in JSON.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .loader_arguments import LoaderArguments

__all__ = ["PageHead", "StageHead", "declared_stages", "edges_of", "pack_head", "unpack_head"]

_MOST_DIGITS = 9


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


def declared_stages(head: PageHead) -> list[int]:
    """Return the indices of the stages that the user has declared."""
    return [index for index, stage in enumerate(head.stages) if stage.declared]


def edges_of(head: PageHead) -> tuple[tuple[int, int], ...]:
    """Return the graph: pairs of places among the sources, the declared stages and the sink."""
    first = len(head.sources)
    parts = [*range(first), *(first + index for index in declared_stages(head))]
    places = {part: place for place, part in enumerate(parts)}

    def givers(feeders: Iterable[int]) -> Iterator[int]:
        for feeder in feeders:
            # What is not declared only carries the results of others.
            yield from (places[feeder],) if feeder in places else givers(head.stages[feeder - first].feeders)

    fed = {feeder for stage in head.stages for feeder in stage.feeders}
    ends = [part for part in range(first + len(head.stages)) if part not in fed]
    edges = [(giver, places[part]) for part in parts[first:] for giver in givers(head.stages[part - first].feeders)]
    return (*edges, *((giver, len(parts)) for giver in givers(ends)))


def pack_head(head: PageHead) -> dict[str, Any]:
    """Return what JSON can hold."""
    return asdict(head)


def unpack_head(about: Mapping[str, Any]) -> PageHead:
    """Return what was packed.

    Raises:
        AttributeError, KeyError, OverflowError, TypeError, ValueError: If it is anything else.
    """
    from .loader_arguments import LoaderArguments  # noqa: PLC0415 - only who reads pages of others needs it.

    sources, stages, loader = about["sources"], about["stages"], about.get("loader")
    parts = len(sources) + len(stages)
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
        loader=None if loader is None else LoaderArguments.unpack(loader),
    )


def _stage(about: Mapping[str, Any], parts: int) -> StageHead:
    feeders = tuple(map(int, about["feeders"]))
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
        processes=int(about["processes"]),
        copies=int(about["copies"]),
    )
