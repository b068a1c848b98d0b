"""The resource usage of a process group."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ProcessGroupResourceUsage"]


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
            loopback count, and all processes, not only those of the group. None at the first sample.
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
