"""What the processes of a process group use."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ProcessGroupResourceUsage"]


@dataclass(frozen=True)
class ProcessGroupResourceUsage:
    """What all processes of one process group use together, at one time.

    A figure that could not be read of any process is None. A process may be of another user, and its memory maps and
    I/O counters then cannot be read: it is left out of those sums.

    Attributes:
        pid: The process that took the figures.
        pgid: The process group.
        cpu_percent: CPU time since the last sample, in percent of one core: 250 stands for two and a half busy cores.
            None at the first sample.
        rss_bytes: Bytes of resident memory; what processes share is counted in each of them.
        pss_bytes: Bytes of resident memory; what processes share is counted in each by its share.
        private_bytes: Bytes of resident memory that no other process has: what would be free if it ended.
        disk_read_bytes: Bytes that were fetched from storage, since the processes began. The cache's are none. Those of
            processes that ended between two samples are kept in the sum, so it never becomes less.
        disk_write_bytes: Bytes that are to be written to storage, likewise.
        num_procs: How many processes there are.
        net_rx_bytes: Bytes that the host, or the container, received since the last sample, over all interfaces but
            the loopback: not only those of the group. None at the first sample.
        net_tx_bytes: Bytes sent, likewise.

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
