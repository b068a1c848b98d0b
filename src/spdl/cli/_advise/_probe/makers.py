"""The times of a process that makes batches, by the line that made the loader."""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Any

from .call_times import FetchTimes
from .loop_times import RecordFile


class SendTimes:
    """The CPU time of the thread that pickles what a queue is given, and sends it. Tensors go through shared memory."""

    def __init__(self) -> None:
        self.sent = self.sent_bytes = 0
        self.send_cpu = 0.0
        self._taken_at = 0.0

    def watch(self, queue: Any) -> bool:
        """Measure a queue of `multiprocessing` that nothing has been put into yet, if its internals are as expected."""
        known = vars(queue)
        if getattr(queue, "_thread", None) is not None or not {"_buffer", "_send_bytes"} <= known.keys():
            return False
        # The queue's thread takes an object from this buffer, pickles it, waits for its turn and calls this function.
        known["_buffer"] = _Buffer(self)
        known["_send_bytes"] = self._timed(known["_send_bytes"])
        return True

    def note_taken(self) -> None:
        self._taken_at = thread_time()

    def _timed(self, send: Callable[[Any], None]) -> Callable[[Any], None]:
        def send_and_note(pickled: Any) -> None:
            send(pickled)
            self.sent += 1
            self.sent_bytes += len(pickled)
            self.send_cpu += thread_time() - self._taken_at

        return send_and_note


class _Buffer(deque[Any]):
    def __init__(self, times: SendTimes) -> None:
        super().__init__()
        self._times = times

    def popleft(self) -> Any:
        taken = super().popleft()
        self._times.note_taken()
        return taken


class Maker:
    def __init__(self, site: str) -> None:
        self.fetches = FetchTimes()
        self.sending = SendTimes()
        self._site = site
        self._pid = os.getpid()
        number = abs(hash(site)) % 10**8
        self._file = RecordFile(f"maker-{self._pid}-{number}.json", self._record)
        atexit.register(self._file.write)

    def fetch(self, function: Any, fetcher: Any, index: Any) -> Any:
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
    def __init__(self) -> None:
        self._makers: dict[str, Maker] = {}
        self._pid = 0
        self._site: str | None = None

    def work_for(self, site: str | None) -> str | None:
        """Say for which line's loaders fetchers are made from now on, and return the line before this call."""
        before, self._site = self._site, site
        return before

    def current(self) -> Maker | None:
        """Return the maker of batches for the line whose work is being done; None without one."""
        if self._site is None:
            return None
        if self._pid != os.getpid():
            # Those of the process that this one was forked from.
            self._makers, self._pid = {}, os.getpid()
        if self._site not in self._makers:
            self._makers[self._site] = Maker(self._site)
        return self._makers[self._site]


def _times_on_core() -> dict[str, float]:
    """Return how long this thread was on a core, and it and all threads waited for one. The system may not say."""
    try:
        on_core, waiting = _scheduled("thread-self")
        all_waiting = sum(_scheduled(f"self/task/{thread}")[1] for thread in os.listdir("/proc/self/task"))  # noqa: PTH208
    except (OSError, ValueError):
        # A thread may have ended meanwhile.
        return {}
    return {"on_core": on_core * 1e-9, "for_core": waiting * 1e-9, "all_for_core": all_waiting * 1e-9}


def _scheduled(thread: str) -> tuple[int, int]:
    with open(f"/proc/{thread}/schedstat", encoding="ascii") as file:  # noqa: PTH123 - pathlib is not imported.
        on_core, waiting = map(int, file.read().split()[:2])
    return on_core, waiting


MAKERS = Makers()


class WorkerLoop:
    """Runs PyTorch's loop of a worker process, and measures what it does.

    The process runs it. A process that is not forked gets it pickled, with the line of its loader.
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
