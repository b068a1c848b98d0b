"""The times that loops spend waiting for their loaders and otherwise, and the files that tell them."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter, process_time
from typing import Any

# A process that is killed loses the measurements of this many seconds.
_SECONDS = 1.0


class RecordFile:
    """A file in the folder of `SPDL_ADVISE` with what a function returns, as JSON. It is replaced from time to time."""

    def __init__(self, name: str, contents: Callable[[], dict[str, Any]]) -> None:
        self._path = os.path.join(os.environ["SPDL_ADVISE"], name)  # noqa: PTH118 - pathlib is not imported otherwise.
        self._contents = contents
        self._pid = os.getpid()
        self._written_at = perf_counter()

    def write_when_due(self, now: float) -> None:
        if now - self._written_at > _SECONDS:
            self._written_at = now
            self.write()

    def write(self) -> None:
        """Replace the file. A forked copy of the process leaves it alone."""
        if os.getpid() != self._pid:
            return
        made = f"{self._path}.making"
        with suppress(OSError):  # A full disk must not end the job.
            with open(made, "w", encoding="utf-8") as file:  # noqa: PTH123
                # In one piece, which is written in C.
                file.write(json.dumps(self._contents()))
            os.replace(made, self._path)  # noqa: PTH105


class LoaderTimes:
    """The times of all loaders that one line makes, as `JobLoader` adds them up over processes.

    Attributes:
        epochs: How many iterations have begun.
        start_seconds: The time from the beginning of an iteration to its first batch, and the time of its end.
        end_seconds: The part of it that the ends took, at which workers stop that are not kept.
        waits: How many batches came after the first one of an iteration, for which the loop waited ``wait_seconds``.
        wait_cpu: The CPU seconds that the waiting thread spent on these: with worker processes, on receiving them.
        steps: How many times the loop did something with a batch. The first time of all is left out.
        step_cpu: The CPU seconds of the process in ``step_seconds``.
        coreless_seconds: The part of these in which the loop's thread could run but had no core, as workers have them.
        ahead_steps, ahead_seconds, ahead_cpu: The same for steps whose batches had all been there before.
        periods: How many waits with the steps after them there were; ``..._squares`` are sums of squares of lengths.
        other_thread: Whether a thread other than the main one reads the loader.
    """

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description
        self.made = self.epochs = self.waits = self.steps = self.ahead_steps = 0
        self.start_seconds = self.end_seconds = self.wait_seconds = self.wait_cpu = 0.0
        self.step_seconds = self.step_cpu = self.ahead_seconds = self.ahead_cpu = self.coreless_seconds = 0.0
        self.periods = 0
        self.period_seconds = self.period_squares = self.ahead_squares = 0.0
        self.other_thread = False
        self._is_warm = False
        self._left_out = 0
        self._waited: float | None = None

    def add_loader(self) -> None:
        """Count a loader whose first iteration begins."""
        self.made += 1

    def add_start(self, seconds: float) -> None:
        """Count the time that an iteration took to give its first batch."""
        self.start_seconds += seconds

    def add_end(self, seconds: float) -> None:
        self.start_seconds += seconds
        self.end_seconds += seconds

    def add_step(self, seconds: float, cpu_seconds: float, *, ahead: bool) -> None:
        waited, self._waited = self._waited, None
        if not self._is_warm:
            # The first step of all compiles kernels and fills caches.
            self._is_warm = True
        elif ahead:
            self.ahead_steps += 1
            self.ahead_seconds += seconds
            self.ahead_cpu += cpu_seconds
            self.ahead_squares += seconds**2
        elif self._left_out:
            self._left_out -= 1
        else:
            self.steps += 1
            self.step_seconds += seconds
            self.step_cpu += cpu_seconds
            if waited is not None:
                self.periods += 1
                self.period_seconds += waited + seconds
                self.period_squares += (waited + seconds) ** 2

    def add_wait(self, seconds: float, cpu_seconds: float, delayed: float) -> None:
        """Count a wait. In the part `delayed` the thread could run but had no core: that counts as a part of a step."""
        if not self._left_out:
            self.waits += 1
            self.wait_seconds += seconds - delayed
            self.step_seconds += delayed
            self.coreless_seconds += delayed
            self.wait_cpu += cpu_seconds
            self._waited = seconds

    def add_coreless(self, seconds: float) -> None:
        if not self._left_out and self.steps:
            self.coreless_seconds += seconds

    def leave_out(self, steps: int) -> None:
        """Leave out the next steps: something other than the loader and the loop has a part in their times."""
        self._left_out = steps

    def share(self) -> float:
        """Return the share of the time, 0 to 1, in which the loop waits, the start of iterations aside."""
        if not self.waits or not self.steps:
            return 0.0
        wait, step = self.wait_seconds / self.waits, self.step_seconds / self.steps
        return wait / (wait + step) if wait else 0.0

    def all_share(self) -> float:
        """Return the share of all time, 0 to 1, that goes to waiting and to the beginnings and ends of iterations."""
        lost = self.start_seconds + self.wait_seconds
        return lost / (lost + self.step_seconds) if lost else 0.0

    def as_record(self) -> dict[str, Any]:
        times = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        del times["description"]
        return self.description | times


class _Given(threading.local):
    """The last batch that a thread got.

    It has the times that it counts for, when it came by the clock and by the process's CPU time, and whether it had
    been there before. None after the end of an iteration: the time after it is not a step.
    """

    batch: tuple[LoaderTimes, float, float, bool] | None = None

    def note(self, batch: tuple[LoaderTimes, float, float, bool]) -> None:
        self.batch = batch

    def take(self) -> tuple[LoaderTimes, float, float, bool] | None:
        batch, self.batch = self.batch, None
        return batch


class Loops:
    def __init__(self) -> None:
        self._loaders: dict[str, LoaderTimes] = {}
        self._given = _Given()
        self._file: RecordFile | None = None
        self._pid = 0

    def times_of(self, site: str, description: dict[str, Any]) -> LoaderTimes:
        """Return the times of the loaders that a line makes, if one of them begins an iteration."""
        if self._pid != os.getpid():
            # A forked process has its own loops.
            self._loaders, self._pid = {}, os.getpid()
            self._given.take()
            self._file = RecordFile(f"loop-{self._pid}.json", self._record)
            atexit.register(self._file.write)
        times = self._loaders.setdefault(site, LoaderTimes(description))
        times.epochs += 1
        return times

    def request(self, now: float) -> None:
        """Called when a loop asks for a batch, or for an iterator: a step has ended."""
        given = self._given.take()
        if given is not None:
            times, then, cpu, ahead = given
            times.add_step(now - then, process_time() - cpu, ahead=ahead)

    def give(self, times: LoaderTimes, now: float, *, ahead: bool) -> None:
        """Called when a loop gets its batch: a step begins."""
        if threading.current_thread() is not threading.main_thread():
            times.other_thread = True
        if self._file is not None:
            self._file.write_when_due(now)
        self._given.note((times, perf_counter(), process_time(), ahead))

    def write(self) -> None:
        if self._file is not None:
            self._file.write()

    def _record(self) -> dict[str, Any]:
        return {
            "kind": "loop",
            "pid": os.getpid(),
            "rank": os.environ.get("RANK"),
            "program": sys.argv[0] if sys.argv else "",
            "torch": getattr(sys.modules.get("torch"), "__version__", ""),
            "loaders": [times.as_record() for times in self._loaders.values()],
        }


LOOPS = Loops()
