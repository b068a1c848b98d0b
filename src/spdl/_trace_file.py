"""The files of traces: events in the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing show.

A file is an array of JSON with an event on each line, compressed if its name ends with ".gz".
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import IO, cast

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

_BEGIN, _BETWEEN, _END = b"[\n", b",\n", b"\n]\n"
_BATCH = 1000
# More takes longer, and saves little.
_LEVEL = 1
_THREADS = 1 << 31
# Programs read times as floating-point numbers of microseconds, and count in nanoseconds. Of eighths nothing is lost on
# the way, so that what ends when something else begins does so everywhere.
_EIGHTHS = 8_000_000
_FRACTIONS = ("", ".125", ".25", ".375", ".5", ".625", ".75", ".875")


def _clock() -> float:
    """Return how many seconds times in a trace are ahead of `time.perf_counter`.

    The clock of traces also counts while the machine sleeps, if the system has such a clock.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return 0.0 if clock is None else time.clock_gettime(clock) - time.perf_counter()


class Events:
    """Makes the events of one process. Times are whole eighths of microseconds, made by `at` and `at_nanoseconds`."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._ahead = _clock()
        self._rows: set[int] = set()
        # Names come again and again.
        self._names: dict[str, str] = {}
        self._heres: dict[tuple[int, str], str] = {}

    def at(self, seconds: float) -> int:
        """Return the time in a trace of a time of `time.perf_counter`."""
        return round((seconds + self._ahead) * _EIGHTHS)

    def at_nanoseconds(self, nanoseconds: int) -> int:
        """Return the time in a trace for a time of its clock."""
        return nanoseconds // 125

    def of_process(self, name: str) -> Iterator[str]:
        """Describe the process, and say which time of day the times count from."""
        zero = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=self.at(time.perf_counter()) / _EIGHTHS)
        yield self._described("process_name", "name", name)
        yield self._described("process_labels", "labels", f"time 0 is {zero.isoformat()}")

    def of_row(self, row: int, name: str) -> str:
        return self._described("thread_name", "name", name, f'"tid":{row},')

    def _described(self, what: str, key: str, value: str, row: str = "") -> str:
        return f'{{"ph":"M","pid":{self.process},{row}"name":"{what}","args":{{"{key}":{self._text(value)}}}}}'

    def row(self, number: int, thread: int | None) -> int:
        """Return the number of a row: the number of its thread if possible.

        Args:
            number: Which of the rows of this process it is.
            thread: The system's number of the thread that it shows. None if it shows no thread. The system gives the
                number of a thread that has ended to another one, and that one has another row.
        """
        if thread is not None and thread not in self._rows:
            self._rows.add(thread)
            return thread
        # No thread has such a number. Programs mistake threads of two processes for each other if the numbers agree.
        return _THREADS | ((self.process << 9) + number) % _THREADS

    def span(self, row: int, name: str, at: int, until: int, notes: Mapping[str, int | str]) -> str:
        """Return what has begun and ended. Those of a row nest; of two that begin together the outer one is first."""
        took = until - at
        return (
            f'{{"ph":"X","dur":{took >> 3}{_FRACTIONS[took & 7]},"ts":{at >> 3}{_FRACTIONS[at & 7]}'
            f"{self._here(row, name)}{self._noted(notes)}}}"
        )

    def begin(self, row: int, name: str, at: int, notes: Mapping[str, int | str] | None = None) -> str:
        """Return the beginning of what ends by another event, or goes on."""
        noted = "" if notes is None else self._noted(notes)
        return f'{{"ph":"B","ts":{at >> 3}{_FRACTIONS[at & 7]}{self._here(row, name)}{noted}}}'

    def end(self, row: int, at: int) -> str:
        """Return the end of what began last on a row and has not ended."""
        return f'{{"ph":"E","ts":{at >> 3}{_FRACTIONS[at & 7]},"pid":{self.process},"tid":{row}}}'

    def instant(self, row: int, name: str, at: int) -> str:
        return f'{{"ph":"i","s":"t","ts":{at >> 3}{_FRACTIONS[at & 7]}{self._here(row, name)}}}'

    def on_way(self, row: int, at: int, way: int, *, first: bool) -> str:
        """Return a place on a way: the event of that row before this one. Arrows lead from place to place.

        Args:
            row: The row.
            at: When that event begins.
            way: The number of the way, of 64 bits, which no other way has.
            first: Whether the way begins here.
        """
        return (
            f'{{"ph":"{"s" if first else "t"}","ts":{at >> 3}{_FRACTIONS[at & 7]}{self._here(row, "item")}'
            f',"cat":"item","id":"{way:#x}"}}'
        )

    def count(self, name: str, at: int, unit: str, value: float) -> str:
        # JSON has no numbers that are not finite.
        shown = f"{value}" if isfinite(value) else f'"{value}"'
        return (
            f'{{"ph":"C","ts":{at >> 3}{_FRACTIONS[at & 7]},"pid":{self.process},"name":{self._text(name)}'
            f',"args":{{"{unit}":{shown}}}}}'
        )

    def _here(self, row: int, name: str) -> str:
        if (found := self._heres.get((row, name))) is None:
            found = f',"pid":{self.process},"tid":{row},"name":{self._text(name)}'
            self._heres[row, name] = found
        return found

    def _noted(self, notes: Mapping[str, int | str]) -> str:
        shown = [f'"{key}":{each if isinstance(each, int) else self._text(each)}' for key, each in notes.items()]
        return f',"args":{{{",".join(shown)}}}'

    def _text(self, text: str) -> str:
        # Programs that read traces need not know all escapes, and none of half a character.
        if (found := self._names.get(text)) is None:
            found = self._names[text] = json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)
        return found


@contextmanager
def compressed(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield what is written to in order to have it compressed in a file."""
    with gzip.GzipFile("", "wb", _LEVEL, file) as content:
        yield cast("IO[bytes]", content)


def trace_content(path: str | os.PathLike[str], file: IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    return compressed(file) if os.fsdecode(path).endswith(".gz") else nullcontext(file)


def write_events(file: IO[bytes], events: Iterable[str]) -> None:
    events = iter(events)
    between = _BEGIN
    while batch := list(islice(events, _BATCH)):
        file.write(between + _BETWEEN.decode().join(batch).encode())
        between = _BETWEEN
    file.write(_END)


def join_traces(parts: Sequence[Path], file: IO[bytes]) -> None:
    """Write what traces of several processes hold, which are not compressed, as one trace."""
    for place, part in enumerate(parts):
        file.write(_BETWEEN if place else _BEGIN)
        file.write(memoryview(part.read_bytes())[len(_BEGIN) : -len(_END)])
    file.write(_END)
