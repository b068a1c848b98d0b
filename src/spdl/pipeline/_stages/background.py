"""Work on the event loop beside the stages: tasks whose failures are logged, and a monitor of the process group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing.context
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import BaseContext
from pathlib import Path
from types import CoroutineType
from typing import Any, NamedTuple, TypeVar

from spdl._check import check_flag, check_seconds, positive, refuse
from spdl.pipeline._declare.interfaces import BackgroundTask
from spdl.pipeline._declare.op import place_of
from spdl.pipeline._report.failures import log_error

T = TypeVar("T")

_LOG = logging.getLogger("spdl.pipeline")


class _Suppression:
    """Counts the exceptions raised at each line of code in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, int]] = Counter()

    def is_worth_logging(self, error: BaseException, threshold: int, interval: int) -> bool:
        """Count an exception, and return whether to log it. If not, log a warning at the threshold and at intervals."""
        place, function = _place(error)
        with self._lock:
            self._counts[place] += 1
            count = self._counts[place]
        if count < threshold:
            return True
        if count == threshold:
            _LOG.warning("Errors repeat at %s:%d:%s, and are no longer logged one by one.", *place, function)
        elif count % interval == 0:
            _LOG.warning("%d errors so far at %s:%d:%s.", count, *place, function)
        return False


def _place(error: BaseException) -> tuple[tuple[str, int], str]:
    trace = error.__traceback__
    if trace is None:
        return ("", 0), ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return (code.co_filename, trace.tb_lineno), code.co_name


_SUPPRESSION = _Suppression()

# The event loop holds its tasks weakly, so a task that nothing else holds could be collected before it is done.
_TASKS: set[asyncio.Task[Any]] = set()


def create_task(  # noqa: PLR0917 - the reference's signature.
    coro: Coroutine[Any, Any, T],
    name: str | None = None,
    log_cancelled: bool = False,  # noqa: FBT001, FBT002
    suppress_repeated_logs: bool = False,  # noqa: FBT001, FBT002
    suppression_threshold: int = 5,
    suppression_warning_interval: int = 100,
) -> asyncio.Task[T]:
    """Start an `asyncio` task on the running loop. If the task raises, the exception is logged as an error.

    A plain task whose result is not asked for reports its failure only when it is collected, which may be never.
    Nothing else changes: code that awaits the task still gets its exception. The task is held until it is done.

    Args:
        coro: The coroutine that the task runs.
        name: The task's name, which the log shows.
        log_cancelled: Whether to log a warning if the task is cancelled.
        suppress_repeated_logs: Whether to stop logging exceptions that are raised at the same line again and again. The
            count includes all tasks of the process for which this is on.
        suppression_threshold: The count from which exceptions of the same line are no longer logged as errors. With 5,
            the first four are logged, and a warning that this line repeats replaces the fifth.
        suppression_warning_interval: After that, one more warning with the count is logged at every multiple of this
            number.

    Returns:
        The task.

    Raises:
        RuntimeError: If no event loop runs in this thread.
        TypeError, ValueError: If another argument is not as described.

    Example:
        >>> import asyncio
        >>> from spdl.pipeline import create_task
        >>> async def answer():
        ...     return 42
        >>> async def main():
        ...     return await create_task(answer(), name="ask")
        >>> asyncio.run(main())
        42
    """
    try:
        threshold = positive("suppression_threshold", suppression_threshold)
        interval = positive("suppression_warning_interval", suppression_warning_interval)
        suppression = (threshold, interval) if check_flag("suppress_repeated_logs", suppress_repeated_logs) else None
        log_cancelled = check_flag("log_cancelled", log_cancelled)
        task = asyncio.create_task(coro, name=None if name is None else str(name))
    except BaseException:
        if isinstance(coro, CoroutineType):
            # Otherwise it would warn that it was never awaited.
            coro.close()
        raise
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    task.add_done_callback(partial(_log_outcome, log_cancelled, suppression))
    return task


def _log_outcome(log_cancelled: bool, suppression: tuple[int, int] | None, task: asyncio.Task[Any]) -> None:  # noqa: FBT001 - bound by position.
    if task.cancelled():
        if log_cancelled:
            _LOG.warning("Task %r was cancelled.", task.get_name())
        return
    error = task.exception()
    if error is not None and (suppression is None or _SUPPRESSION.is_worth_logging(error, *suppression)):
        log_error(error, "Task %r failed", task.get_name())


@dataclass(frozen=True)
class ProcessGroupResourceUsage:
    """The resource usage of all processes of one process group together, at one time.

    A figure that could not be read for any process is None. If a process belongs to another user, its memory maps and
    I/O counters cannot be read, and it is left out of those sums.

    Attributes:
        pid: The process that took the figures.
        pgid: The process group.
        cpu_percent: CPU time since the last sample, in percent of one core: 250 stands for two and a half busy cores.
            None at the first sample.
        rss_bytes: Bytes of resident memory. Memory that processes share counts in full for each of them.
        pss_bytes: Bytes of resident memory. Memory that processes share is divided among them.
        private_bytes: Bytes of resident memory that no other process has. They would be free if the process ended.
        disk_read_bytes: Bytes that were fetched from storage, since the processes began. Reads from the cache do not
            count. The bytes of processes that have ended stay in the sum, so it never becomes less.
        disk_write_bytes: Bytes that were or will be written to storage, since the processes began. The bytes of
            processes that have ended stay in the sum.
        num_procs: How many processes there are.
        net_rx_bytes: Bytes that the host, or the container, received since the last sample. All interfaces except the
            loopback count, and all processes, not only the group's. None at the first sample.
        net_tx_bytes: Bytes that the host, or the container, sent since the last sample, counted in the same way.

    Example:
        >>> from spdl.pipeline import ProcessGroupResourceUsage
        >>> usage = ProcessGroupResourceUsage(pid=7, pgid=7, cpu_percent=250.0, rss_bytes=3 << 30)
        >>> f"{usage.cpu_percent / 100} cores, {usage.rss_bytes >> 20} MiB"
        '2.5 cores, 3072 MiB'
    """

    pid: int
    pgid: int
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    pss_bytes: int | None = None
    private_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    num_procs: int | None = None
    net_rx_bytes: int | None = None
    net_tx_bytes: int | None = None


_PROC = Path("/proc")
_ZOMBIE = "Z"


class _Process(NamedTuple):
    """The fields of /proc/PID/stat. A later process may have the same number, but not with the same start."""

    pid: int
    start: int
    state: str
    ticks: int


class _Memory(NamedTuple):
    rss: int
    pss: int
    private: int


class _Transfer(NamedTuple):
    """Bytes read and written."""

    read: int
    written: int


class ProcessGroupSampler:
    """Takes samples of a process group, each relative to the previous one."""

    def __init__(self, pgid: int) -> None:
        self._pgid = pgid
        self._tick = 1 / os.sysconf("SC_CLK_TCK")
        self._sampled_at: float | None = None
        self._ticks: dict[tuple[int, int], int] = {}
        self._transfers: dict[tuple[int, int], _Transfer] = {}
        # The transfers of processes that have ended.
        self._ended = _Transfer(0, 0)
        self._net: dict[str, _Transfer] | None = None

    def sample(self) -> ProcessGroupResourceUsage:
        """Take a sample. This reads a handful of files for each process, and does not disturb the processes.

        The kernel walks the page tables for the memory figures, which takes some milliseconds per resident gigabyte.
        """
        # The start times of processes use this clock. It is read before the list is made, so that a process that starts
        # in the meantime does not seem older than the sample.
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        processes = _list_processes(self._pgid)
        living = [process for process in processes if process.state != _ZOMBIE]
        memory = [found for process in living if (found := _read_memory(process.pid)) is not None]
        resident = [_read_resident(process.pid) for process in living] if not memory else []
        transfer = self._count_transfers(living)
        net = self._count_net()
        return ProcessGroupResourceUsage(
            pid=os.getpid(),
            pgid=self._pgid,
            cpu_percent=self._count_cpu(processes, now),
            rss_bytes=sum(found.rss for found in memory) if memory else sum(resident) or None,
            pss_bytes=sum(found.pss for found in memory) if memory else None,
            private_bytes=sum(found.private for found in memory) if memory else None,
            disk_read_bytes=None if transfer is None else transfer.read,
            disk_write_bytes=None if transfer is None else transfer.written,
            num_procs=len(living),
            net_rx_bytes=None if net is None else net.read,
            net_tx_bytes=None if net is None else net.written,
        )

    def _count_cpu(self, processes: list[_Process], now: float) -> float | None:
        before = self._sampled_at
        ticks = {(process.pid, process.start): process.ticks for process in processes}
        used = 0
        for key, count in ticks.items():
            if key in self._ticks:
                used += count - self._ticks[key]
            elif before is not None and key[1] * self._tick >= before - self._tick:
                # The process began after the last sample. An older one has just joined the group, and counts from now.
                used += count
        self._ticks, self._sampled_at = ticks, now
        return None if before is None else 100 * used * self._tick / (now - before)

    def _count_transfers(self, processes: list[_Process]) -> _Transfer | None:
        found = {}
        for process in processes:
            key = process.pid, process.start
            # If a process cannot be read now, its last figures still count.
            transfer = _read_transfer(process.pid) or self._transfers.get(key)
            if transfer is not None:
                found[key] = transfer
        gone = [self._transfers[key] for key in self._transfers.keys() - found.keys()]
        self._ended = _add([self._ended, *gone])
        self._transfers = found
        return _add([self._ended, *found.values()]) if found else None

    def _count_net(self) -> _Transfer | None:
        before, self._net = self._net, _read_net()
        if before is None or self._net is None:
            return None
        # A new interface is left out, as it may have counted for long. One that was reset counts as 0, not as negative.
        pairs = [(self._net[name], before[name]) for name in self._net.keys() & before.keys()]
        return _add([_Transfer(max(0, a.read - b.read), max(0, a.written - b.written)) for a, b in pairs])


def _add(transfers: list[_Transfer]) -> _Transfer:
    return _Transfer(sum(one.read for one in transfers), sum(one.written for one in transfers))


def _lines(name: str) -> list[str]:
    """Return the lines of a file; none if the process is gone, or another user's, or the kernel is too old for it."""
    try:
        return (_PROC / name).read_text(errors="replace").splitlines()
    except OSError:
        return []


def _list_processes(pgid: int) -> list[_Process]:
    found = []
    for name in os.listdir(_PROC):  # noqa: PTH208 - a host may have thousands, and only the names are needed.
        if name.isdecimal() and (lines := _lines(f"{name}/stat")):
            # The command in parentheses may itself contain spaces and parentheses.
            fields = lines[-1].rpartition(") ")[2].split()
            if int(fields[2]) == pgid:
                found.append(_Process(int(name), int(fields[19]), fields[0], int(fields[11]) + int(fields[12])))
    return found


def _read_memory(pid: int) -> _Memory | None:
    rss = pss = private = 0
    if not (lines := _lines(f"{pid}/smaps_rollup")):
        return None
    for line in lines[1:]:
        name, value, *_ = line.split()
        kilobytes = int(value)
        if name == "Rss:":
            rss = kilobytes
        elif name == "Pss:":
            pss = kilobytes
        elif name.startswith("Private_"):
            private += kilobytes
    return _Memory(1024 * rss, 1024 * pss, 1024 * private)


def _read_resident(pid: int) -> int:
    return sum(int(line.split()[1]) for line in _lines(f"{pid}/statm")) * os.sysconf("SC_PAGE_SIZE")


def _read_transfer(pid: int) -> _Transfer | None:
    values = dict(line.split(": ") for line in _lines(f"{pid}/io"))
    return _Transfer(int(values["read_bytes"]), int(values["write_bytes"])) if values else None


def _read_net() -> dict[str, _Transfer] | None:
    if not (lines := _lines("net/dev")):
        return None
    interfaces = {}
    for line in lines[2:]:
        name, _, values = line.partition(":")
        if name.strip() != "lo":
            counts = values.split()
            interfaces[name.strip()] = _Transfer(int(counts[0]), int(counts[8]))
    return interfaces


# Seconds that a cancelled callback may take to end.
_GRACE = 0.5


class ProcessGroupStatsMonitor(BackgroundTask):
    """A background task that samples the resource usage of this process's group.

    The group contains this process, its workers and their children. Other processes with the same group ID count as
    well, such as a launcher and its other ranks. A child in its own session does not count.

    The monitor reads ``/proc``, so it works on Linux. On other systems a warning is logged and nothing is reported. The
    first sample is taken at once. The monitor has a thread and its own event loop, which take the samples and
    await the callback. So a callback that blocks, for example on a network, delays only the next sample.

    Args:
        callback: An async function that gets each `ProcessGroupResourceUsage`. It runs in this process, so it may use
            resources that are open here. An exception that it raises is logged, and sampling continues.
        interval: Seconds from one sample to the next.
        mp_context: Accepted for compatibility, without effect: the monitor starts no process. So it works in daemonic
            processes too, and the figures contain no monitor process.

    Raises:
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from spdl.pipeline import ProcessGroupStatsMonitor, build_pipeline
        >>> from spdl.pipeline.defs import PipelineConfig, SinkConfig, SourceConfig
        >>> samples = []
        >>> async def report(usage):
        ...     samples.append(usage)
        >>> config = PipelineConfig(SourceConfig(range(3)), [], SinkConfig(3))
        >>> monitor = lambda: ProcessGroupStatsMonitor(report, interval=10)
        >>> with build_pipeline(config, num_threads=1, background_tasks=[monitor]).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [0, 1, 2]
    """

    def __init__(
        self,
        callback: Callable[[ProcessGroupResourceUsage], Awaitable[None]],
        interval: float = 60.0,
        mp_context: BaseContext | None = None,
    ) -> None:
        if not callable(callback):
            refuse(TypeError, "callback", "an async function", callback)
        if mp_context is not None and not isinstance(mp_context, multiprocessing.context.BaseContext):
            refuse(TypeError, "mp_context", "a context of multiprocessing or None", mp_context)
        self._callback = callback
        self._interval = check_seconds("interval", interval, above_zero=True)

    async def run(self) -> None:
        """Report until cancelled."""
        if not sys.platform.startswith("linux"):
            _LOG.warning("%s reads /proc, which this system does not have: nothing is reported.", type(self).__name__)
            return
        ended = asyncio.Event()
        ours = asyncio.new_event_loop()
        work = ours.create_task(self._report())
        pipelines_loop = asyncio.get_running_loop()

        def serve() -> None:
            try:
                ours.run_until_complete(work)
            except asyncio.CancelledError:
                pass
            except BaseException as error:  # noqa: BLE001 - even a SystemExit of the callback ends only this thread.
                log_error(error, "%s has ended", type(self).__name__)
                if work.done() and not work.cancelled():
                    # Otherwise asyncio would log it again when the task is collected.
                    work.exception()
            ours.close()
            # The pipeline's event loop may be closed by now.
            with contextlib.suppress(RuntimeError):
                pipelines_loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=serve, name="spdl_process_group_monitor", daemon=True).start()
        try:
            await ended.wait()
        finally:
            with contextlib.suppress(RuntimeError):
                ours.call_soon_threadsafe(work.cancel)
            try:
                await asyncio.wait_for(ended.wait(), _GRACE)
            except TimeoutError:
                _LOG.warning(
                    "The callback %s of %s has not returned within %g s, and is abandoned.",
                    place_of(self._callback),
                    type(self).__name__,
                    _GRACE,
                )

    async def _report(self) -> None:
        sampler = ProcessGroupSampler(os.getpgrp())
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self._callback(sampler.sample())
            except Exception as error:  # noqa: BLE001 - it must not end the reports.
                log_error(error, "The callback %s of %s raised", place_of(self._callback), type(self).__name__)
            # After a late sample, the next one comes at its usual time. Missed samples are not made up for.
            due = max(due + self._interval, loop.time())
            await asyncio.sleep(due - loop.time())
