"""The page that a running pipeline writes for observers in other processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import TYPE_CHECKING, Any

from spdl.pipeline._report.sample import page_values
from spdl.pipeline._world import Lock, get_native_id, perf_counter

if TYPE_CHECKING:
    from spdl.pipeline._report.page_file import PageFile

# The column, before the rows, with the time at which a consumer began to wait; 0 if none waits.
CONSUMER = 0
# The thread's number as the system knows it (0 if the row is free) and as Python does, the origin of the item that its
# last op got, since when it is idle, and then a column for each source and each stage: when the thread last began to
# pull it, or to run its op. An item's origin is its position times the number of sources plus the index of its source;
# a batch, or one of several results, has -1 minus the origin of the first item that it was made from.
THREAD, IDENTITY, ITEM, IDLE, COLUMNS = 0, 1, 2, 3, 4


# The shortest time between two writes of the counters, and the factor of a write's own duration to wait after it. That
# duration may include other programs' turns on the core, so a longest time between writes bounds the wait.
_INTERVAL = 0.01
_TIMES_COST = 200
_LONGEST = 0.1


class _Rows(dict[int, "memoryview[float]"]):
    """The rows of threads by their identities; threads without one share a row that is not read."""

    def __init__(self, spare: memoryview[float]) -> None:
        super().__init__()
        self._spare = spare

    def __missing__(self, thread: int) -> memoryview[float]:
        return self._spare


class Page:
    """The page of one pipeline. Guarded by the engine's lock, except that each thread writes into its own row.

    Attributes:
        due: When the counters should be written again; infinite if they cannot be read.
        flushing: Whether an idle thread will write them when they are due; ``sleeper`` is its gate, if not soon.
        rows: The row of each thread that runs ops, in which it notes when it began what it does now.
        spare: A row that is not read.
    """

    def __init__(self, columns: int, file: PageFile | None = None, look: Callable[[], None] | None = None) -> None:
        self._file = file
        # Looks whether those who read the page want more.
        self._look = look
        self.spare = memoryview(bytearray(8 * columns)).cast("d")
        self.rows = _Rows(self.spare)
        self._consumer = self.spare[:1] if file is None else file.consumer
        self._free = [] if file is None else list(reversed(file.rows))
        self.due = inf if file is None else 0.0
        self.flushing = False
        self.sleeper: Lock | None = None

    def write(self, engine: object, now: float) -> None:
        if self._file is None:
            return
        self._file.write(page_values(engine, now))
        end = perf_counter()
        self.due = end + min(_LONGEST, max(_INTERVAL, _TIMES_COST * (end - now)))
        if self._look is not None:
            self._look()

    def enter(self, thread: int) -> memoryview[float]:
        if not self._free:
            return self.spare
        row = self.rows[thread] = self._free.pop()
        row[IDLE] = perf_counter()
        row[IDENTITY] = thread
        row[THREAD] = get_native_id()
        return row

    def begins(self, thread: int, column: int, item: int, now: float) -> None:
        """Note that the current thread, which has that identity, begins an op on an item of that origin."""
        row = self.rows[thread]
        row[ITEM] = item
        row[column] = now

    def leave(self, thread: int) -> None:
        """Note that a thread runs no more ops, and writes into its row no more."""
        row = self.rows.pop(thread, None)
        if row is None:
            return
        row[THREAD] = 0.0
        if self._file is None:
            # Tracebacks may keep frames that refer to the row, and it would keep the memory.
            row.release()
        else:
            self._free.append(row)

    def set_flushing(self, *, flushing: bool, sleeper: Lock | None = None) -> None:
        """Note whether a thread that is idle will write the counters when they are due.

        With its gate, it will not do so soon, and they are due as soon as another thread does anything.
        """
        self.flushing = flushing
        self.sleeper = sleeper
        if sleeper is not None:
            self.due = 0.0

    def consumer_waits(self, since: float) -> None:
        """Note since when a consumer waits, or with 0 that it does not. Needs no lock."""
        self._consumer[0] = since

    def consumer_waits_since(self) -> float:
        return self._consumer[0]

    def remove(self) -> None:
        """Remove the page. Threads that still run may continue writing, which is no longer seen."""
        if self._file is not None:
            self._file.remove()
            self._file = None
            self.due = inf
            # The rows of threads that run keep the memory, and nothing else does.
            self._consumer = self.spare[:1]
            for row in self._free:
                row.release()
            self._free.clear()


@dataclass(frozen=True, slots=True)
class StageArguments:
    """The loader's arguments that change one stage.

    Attributes:
        unit: The object that one call of its op works on.
        slot: The name of what works on it: a loader's user knows threads or workers, not slots.
        several: The argument that sets how many it works on at once; empty if there is no such argument.
        value: The argument's present value.
        most: The upper bound of how many it works on at once, whatever the argument; 0 if there is no bound. Threads
            beyond that share the work on one object.
        otherwise: A sentence with the remedy if no argument lets it work on more at once.
        note: A sentence with a warning about changing the argument, or empty.
        processes: The argument that makes it run in processes, with its value; empty if there is no such argument.
        crossing: CPU seconds, all processes together, that it takes to move a result out of a process; 0 if the stage
            does not run in processes.
        in_place_of_processes: A sentence with the remedy if the stage holds the GIL and cannot run in processes.
        order: The argument that lets finished results pass, with its value; empty if none does.
    """

    unit: str = "item"
    slot: str = "thread"
    several: str = ""
    value: int = 0
    most: int = 0
    otherwise: str = ""
    note: str = ""
    processes: str = ""
    crossing: float = 0.0
    in_place_of_processes: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True)
class LoaderArguments:
    """The arguments of a loader that change its stages.

    Attributes:
        loader: The loader's class.
        stages: The stages that it declares, in order.
        source: A sentence with the remedy if the source's ``next()`` takes all the time.
        source_several: The argument that helps then, with as many slots as the work needs; empty if there is none.
        on_demand: Whether the source hands over what the loop asks for, so that its ``next()`` waits for the loop.
        idle: A sentence with the remedy if no stage is busy and the loop still waits, or empty.
    """

    loader: str
    stages: tuple[StageArguments, ...]
    source: str = ""
    source_several: str = ""
    on_demand: bool = False
    idle: str = ""

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> LoaderArguments:
        """Return what was packed, perhaps by another version that knows of less or of more.

        It raises AttributeError, KeyError, TypeError or ValueError for anything else.
        """
        stages = tuple(StageArguments(**_known(StageArguments, stage)) for stage in packed["stages"])
        return cls(**{**_known(cls, packed), "loader": str(packed["loader"]), "stages": stages})


def _known(kind: type[Any], packed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a default, each of the default's type."""
    defaults = {field.name: field.default for field in fields(kind) if isinstance(field.default, str | int | float)}
    return {name: type(default)(packed.get(name, default)) for name, default in defaults.items()}
