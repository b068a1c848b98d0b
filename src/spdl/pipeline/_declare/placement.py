"""The placement of stages: the declarations of regions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from spdl._check import check_str, positive, refuse
from spdl._locate import callers_line
from spdl.pipeline._declare.op import ONE, place_of, positive_or_open

if TYPE_CHECKING:
    from spdl.pipeline._declare.records import StageConfig

    Part: TypeAlias = "StageConfig | PlacementConfig"

_ON_DEATH = ("fail", "rerun")
_FIRST_WITH_INTERPRETERS = (3, 14)


@dataclass(frozen=True, repr=False)
class ExecutorConfig:
    """The workers of a region: what the configurations of processes, interpreters and threads have in common.

    Args:
        max_workers: How many workers there are. None takes the number of cores that this process may use.
        initializer: Called once in each worker, before any op.
        initargs: Its arguments.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline.defs import ExecutorConfig, ProcessPoolExecutorConfig
        >>> isinstance(ProcessPoolExecutorConfig(2), ExecutorConfig)
        True
    """

    max_workers: int | None = None
    initializer: Callable[..., object] | None = None
    initargs: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.max_workers is not None:
            positive("max_workers", self.max_workers)
        if self.initializer is not None and not callable(self.initializer):
            refuse(TypeError, "initializer", "callable or None", self.initializer)
        if not isinstance(self.initargs, tuple):
            refuse(TypeError, "initargs", "a tuple", self.initargs)

    def __repr__(self) -> str:
        parts = [] if self.max_workers is None else [f"max_workers={self.max_workers}"]
        if self.initializer is not None:
            parts.append(f"initializer={place_of(self.initializer)}")
        return f"{type(self).__name__}({', '.join(parts + self._more())})"

    def _more(self) -> list[str]:
        return []


@dataclass(frozen=True, repr=False)
class ProcessPoolExecutorConfig(ExecutorConfig):
    """A region's workers are processes, which have a GIL each. See `PipelineBuilder.to`.

    Args:
        max_workers: How many processes there are. None takes the number of cores that this process may use.
        initializer: Called once in each process, before any op. If it raises, the pipeline fails.
        initargs: Its arguments.
        mp_context: How the processes are started: ``"forkserver"``, ``"spawn"`` or ``"fork"``. None takes the first of
            these that the system has. With the first two, everything that a worker needs is pickled. The last one does
            not go with ``on_death="rerun"``.
        on_death: The consequence if a process dies, killed or out of memory. ``"fail"`` fails the pipeline. ``"rerun"``
            starts another process, and runs the items again that it had not finished, each of them alone in its
            process. So only an item that kills its process is given up as failed, after three deaths. If ten processes,
            or twice as many as there are if that is more, die in a row and finish no item in between, the pipeline
            fails.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline.defs import ProcessPoolExecutorConfig
        >>> ProcessPoolExecutorConfig(max_workers=2, mp_context="spawn")
        ProcessPoolExecutorConfig(max_workers=2, mp_context='spawn')
    """

    mp_context: str | None = None
    on_death: Literal["fail", "rerun"] = "fail"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mp_context is not None:
            import multiprocessing  # noqa: PLC0415 - others have no use for it before the start.

            methods = multiprocessing.get_all_start_methods()
            if check_str("mp_context", self.mp_context) not in methods:
                refuse(ValueError, "mp_context", f"one of {methods}, or None", self.mp_context)
        if self.on_death not in _ON_DEATH:
            refuse(ValueError, "on_death", f"one of {_ON_DEATH}", self.on_death)
        if self.on_death == "rerun" and self.mp_context == "fork":
            remedy = "A process that takes the place of a dead one starts while this one has threads."
            refuse(ValueError, "mp_context", '"forkserver", "spawn" or None beside on_death="rerun"', "fork", remedy)

    def _more(self) -> list[str]:
        parts = [] if self.mp_context is None else [f"mp_context={self.mp_context!r}"]
        return parts if self.on_death == "fail" else [*parts, f"on_death={self.on_death!r}"]


@dataclass(frozen=True, repr=False)
class InterpreterPoolExecutorConfig(ExecutorConfig):
    """A region's workers are other interpreters of this process, which have a GIL each. See `PipelineBuilder.to`.

    They cannot be killed: `Pipeline.stop` waits for their ops as for those in threads, and while an op there does not
    return, the process does not end. Items that cross are pickled, as for processes, but a numpy array arrives as a
    memoryview of the same shape and elements, and a memoryview comes back as an array. Modules are imported again in
    each of them, and what the initializer sets in one, its ops find. Many that have native parts cannot be imported,
    numpy, PyTorch and the native part of `spdl.io` among them: the error names them. Ops must not be of the main
    module, which is not imported there.

    It requires Python 3.14 or later.

    Args:
        max_workers: How many interpreters there are. None takes the number of cores that this process may use.
        initializer: Called once in each of them, before any op. If it raises, the pipeline fails.
        initargs: Its arguments.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline.defs import InterpreterPoolExecutorConfig
        >>> InterpreterPoolExecutorConfig(max_workers=2)
        InterpreterPoolExecutorConfig(max_workers=2)
    """


@dataclass(frozen=True, repr=False)
class ThreadPoolExecutorConfig(ExecutorConfig):
    """A region's workers are groups of threads of this process. See `PipelineBuilder.to`.

    Everything but the place is as in other regions: each worker runs the stages as its own pipeline, beside the
    threads that the pipeline was built with. Nothing is pickled or copied, so ops may be lambdas, and items are the
    same objects on both sides. Ops are shared by all workers, but each has its own copy of an aggregator
    (``copy.deepcopy``). 0.8.0 has no such target.

    Args:
        max_workers: How many workers there are; each has as many threads as its stages have ``concurrency`` together.
            None takes the number of cores that this process may use.
        initializer: Called once for each worker, before any op, and in a thread that runs no ops. If it raises, the
            pipeline fails.
        initargs: Its arguments.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> from spdl.pipeline.defs import MAIN_PROCESS, ThreadPoolExecutorConfig
        >>> builder = PipelineBuilder().add_source([1, 2]).to(ThreadPoolExecutorConfig(1)).pipe(lambda x: -x)
        >>> with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [-1, -2]
    """


class MainProcess:
    """The type of `MAIN_PROCESS`, which is recognized by its identity."""

    def __repr__(self) -> str:
        return "MAIN_PROCESS"

    def __reduce__(self) -> str:
        # It is recognized by its identity, in other processes too.
        return "MAIN_PROCESS"


MAIN_PROCESS: Final[MainProcess] = MainProcess()
"""The target that closes a region: the stages after it run in the pipeline's own threads again.

Example:
    >>> from spdl.pipeline.defs import MAIN_PROCESS, PlacementConfig
    >>> PlacementConfig(MAIN_PROCESS)
    placement(MAIN_PROCESS)
"""


_TARGETS = (ProcessPoolExecutorConfig, InterpreterPoolExecutorConfig, ThreadPoolExecutorConfig, MainProcess)


@dataclass(frozen=True, repr=False)
class PlacementConfig:
    """Says where the stages after it run, among the ``pipes`` of a `PipelineConfig`. See `PipelineBuilder.to`.

    Args:
        target: The workers of a region, or `MAIN_PROCESS`, which closes the region before it.
        name: A name for messages.
        buffer_size: How many items at most are handed over at once at this place.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline.defs import MAIN_PROCESS, PlacementConfig
        >>> PlacementConfig(MAIN_PROCESS, buffer_size=4)
        placement(MAIN_PROCESS, buffer_size=4)
    """

    target: ExecutorConfig | MainProcess
    name: str = "placement"
    buffer_size: int = ONE

    def __post_init__(self) -> None:
        target = self.target
        accepted = (
            "a ProcessPoolExecutorConfig, an InterpreterPoolExecutorConfig, a ThreadPoolExecutorConfig or MAIN_PROCESS"
        )
        if not isinstance(target, _TARGETS):
            remedy = "Give its configuration instead: a region makes its workers itself."
            refuse(TypeError, "target", accepted, target, remedy if isinstance(target, Executor) else "")
        check_str("name", self.name)
        object.__setattr__(
            self, "buffer_size", positive_or_open("buffer_size", self.buffer_size, wrong_type=ValueError)
        )

    def __repr__(self) -> str:
        size = "" if self.buffer_size == 1 else f", buffer_size={self.buffer_size}"
        return f"{self.name}({self.target!r}{size})"


S = TypeVar("S")


class Region(NamedTuple):
    """Stages that run in workers, and the marks before and after them. The first has the workers."""

    entry: PlacementConfig
    stages: tuple[StageConfig, ...]
    exit: PlacementConfig

    def workers(self) -> ExecutorConfig:
        assert isinstance(self.entry.target, ExecutorConfig)
        return self.entry.target


def split(parts: Sequence[Part]) -> Iterator[StageConfig | Region]:
    """Yield the stages that run here, and the regions, in order."""
    entry: PlacementConfig | None = None
    stages: list[StageConfig] = []
    for part in parts:
        if not isinstance(part, PlacementConfig):
            if entry is None:
                yield part
            else:
                stages.append(part)
            continue
        if entry is not None:
            yield Region(entry, tuple(stages), part)
        entry = part if isinstance(part.target, ExecutorConfig) else None
        stages = []


def outside(parts: Sequence[Part]) -> list[StageConfig]:
    """Return the stages without the marks, wherever they run."""
    return [part for part in parts if not isinstance(part, PlacementConfig)]


def check_regions(parts: Sequence[Part]) -> None:
    """Raise a ValueError if a region is empty or not closed, and a RuntimeError if this Python cannot run it."""
    entry: PlacementConfig | None = None
    empty = False
    for part in parts:
        if not isinstance(part, PlacementConfig):
            empty = False
            continue
        if entry is not None and empty:
            raise ValueError(
                f"The region {entry!r} has no stage ({callers_line()}): put stages between it and the next `to`."
            )
        entry = part if isinstance(part.target, ExecutorConfig) else None
        if isinstance(part.target, InterpreterPoolExecutorConfig) and sys.version_info < _FIRST_WITH_INTERPRETERS:
            raise RuntimeError(
                f"InterpreterPoolExecutorConfig requires Python 3.14 or later, and this is {sys.version_info.major}."
                f"{sys.version_info.minor}. Use a ProcessPoolExecutorConfig."
            )
        empty = True
    if entry is not None:
        raise ValueError(
            f"The region {entry!r} is not closed ({callers_line()}): call `to(MAIN_PROCESS)` after its last stage."
        )
