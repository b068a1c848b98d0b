"""Reads the resource usage of a process group from /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from .resource_usage import ProcessGroupResourceUsage

__all__ = ["ProcessGroupSampler"]

_PROC = Path("/proc")
_ZOMBIE = "Z"


class _Process(NamedTuple):
    """The fields of /proc/PID/stat. A later process may have the same number, but not with the same start."""

    pid: int
    start: int
    state: str
    ticks: int


class _Memory(NamedTuple):
    """Memory in bytes."""

    rss: int
    pss: int
    private: int


class _Transfer(NamedTuple):
    """Bytes read and written."""

    read: int
    written: int


class ProcessGroupSampler:
    """Takes samples of a process group, each relative to the previous one.

    Args:
        pgid: The process group.
    """

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
        # meanwhile does not seem older than the sample.
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


def _list_processes(pgid: int) -> list[_Process]:
    found = []
    for name in os.listdir(_PROC):  # noqa: PTH208 - a host may have thousands, and only the names are needed.
        if name.isdecimal():
            try:
                # The command in parentheses may itself contain spaces and parentheses.
                fields = (_PROC / name / "stat").read_text(errors="replace").rpartition(") ")[2].split()
            except OSError:  # The process is gone.
                continue
            if int(fields[2]) == pgid:
                found.append(_Process(int(name), int(fields[19]), fields[0], int(fields[11]) + int(fields[12])))
    return found


def _read_memory(pid: int) -> _Memory | None:
    rss = pss = private = 0
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    except OSError:  # The process is gone or belongs to another user, or the kernel is older than 4.14.
        return None
    for line in lines:
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
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _read_transfer(pid: int) -> _Transfer | None:
    try:
        lines = (_PROC / str(pid) / "io").read_text().splitlines()
    except OSError:
        return None
    values = dict(line.split(": ") for line in lines)
    return _Transfer(int(values["read_bytes"]), int(values["write_bytes"]))


def _read_net() -> dict[str, _Transfer] | None:
    try:
        lines = (_PROC / "net" / "dev").read_text().splitlines()[2:]
    except OSError:
        return None
    interfaces = {}
    for line in lines:
        name, _, values = line.partition(":")
        if name.strip() != "lo":
            counts = values.split()
            interfaces[name.strip()] = _Transfer(int(counts[0]), int(counts[8]))
    return interfaces
