"""The times of a process that makes batches, by the line that made the loader."""

from __future__ import annotations

import atexit
import os
from time import perf_counter
from typing import Any

from .fetch_times import FetchTimes
from .records import RecordFile
from .send_times import SendTimes

__all__ = ["MAKERS", "Maker", "Makers", "WorkerLoop"]


class Maker:
    """Makes batches for the loaders of one line, in this process.

    Args:
        site: The line.
    """

    def __init__(self, site: str) -> None:
        self.fetches = FetchTimes()
        self.sending = SendTimes()
        self._site = site
        self._pid = os.getpid()
        number = abs(hash(site)) % 10**8
        self._file = RecordFile(f"maker-{self._pid}-{number}.json", self._record)
        atexit.register(self._file.write)

    def fetch(self, function: Any, fetcher: Any, index: Any) -> Any:
        """Make a batch, and measure what it takes."""
        batch = self.fetches.fetch(function, fetcher, index)
        self._file.write_when_due(perf_counter())
        return batch

    def write(self) -> None:
        """Write the record now. Processes that `multiprocessing` ends call nothing at exit."""
        self._file.write()

    def _record(self) -> dict[str, Any]:
        times = self.fetches.as_record()
        sending = {"sent": self.sending.sent, "send_cpu": self.sending.send_cpu, "sent_bytes": self.sending.sent_bytes}
        return {"kind": "maker", "pid": self._pid, "site": self._site, **times, **sending, **_times_on_core()}


class Makers:
    """What makes batches in this process."""

    def __init__(self) -> None:
        self._makers: dict[str, Maker] = {}
        self._pid = 0
        self._site: str | None = None

    def work_for(self, site: str | None) -> str | None:
        """Say for which line's loaders fetchers are made from now on.

        Returns:
            What was said before.
        """
        before, self._site = self._site, site
        return before

    def current(self) -> Maker | None:
        """Return what makes batches for the line that work is being done for; None if there is none."""
        if self._site is None:
            return None
        if self._pid != os.getpid():
            # Those of the process that this one was forked from.
            self._makers, self._pid = {}, os.getpid()
        if self._site not in self._makers:
            self._makers[self._site] = Maker(self._site)
        return self._makers[self._site]


def _times_on_core() -> dict[str, float]:
    """Return how long this thread was on a core, and how long it waited for one. The system may not say."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:  # noqa: PTH123 - pathlib is not imported.
            on_core, waiting = map(int, file.read().split()[:2])
    except (OSError, ValueError):
        return {}
    return {"on_core": on_core * 1e-9, "for_core": waiting * 1e-9}


MAKERS = Makers()


class WorkerLoop:
    """Runs PyTorch's loop of a worker process, and measures what it does.

    It is what the process is told to run. A process that is not forked gets it pickled, with the line of its loader.

    Args:
        site: The line.
        loop: PyTorch's function.
    """

    def __init__(self, site: str, loop: Any) -> None:
        self._site = site
        self._loop = loop

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _in_new_process, (self._site,)

    def __call__(self, *arguments: Any, **named: Any) -> None:
        MAKERS.work_for(self._site)
        maker = MAKERS.current()
        assert maker is not None
        # The queue of the batches is the fourth of the arguments in all versions of PyTorch so far.
        queues = [it for it in arguments[3:4] if hasattr(it, "put")]
        for queue in queues:
            maker.sending.watch(queue)
        try:
            self._loop(*arguments, **named)
        finally:
            maker.write()


def _in_new_process(site: str) -> WorkerLoop:
    from torch.utils.data._utils import worker  # noqa: PLC0415 - of the job.

    return WorkerLoop(site, vars(worker)["_worker_loop"])
