"""Test the resource usage of a process group against psutil's figures."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline import ProcessGroupResourceUsage, ProcessGroupStatsMonitor, build_pipeline
from spdl.pipeline.defs import PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEBIBYTE = 1 << 20


def run_in_a_group(code: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a program in its own process group, and return its output: one JSON object per line."""
    # Its bytes of memory, of which there are always some.
    if int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()[20]) == 0:
        pytest.skip("this processor is emulated, and so are the figures in /proc/self/stat")
    preamble = """if True:
        import asyncio, dataclasses, json, os, signal, subprocess, sys, threading, time
        from spdl.pipeline import ProcessGroupStatsMonitor, build_pipeline
        from spdl.pipeline.defs import PipelineConfig, SinkConfig, SourceConfig
        sampled = threading.Event()
        read_clock = time.clock_gettime
        def clock_gettime(clock):
            # When a sample is taken: on a busy machine its report comes later.
            now = read_clock(clock)
            if threading.current_thread().name == "spdl_process_group_monitor":
                noted.update(at=now, own=sum(os.times()[:2]))
            return now
        noted = {}
        time.clock_gettime = clock_gettime
        async def report(usage):
            print(json.dumps({**noted, **dataclasses.asdict(usage)}), flush=True)
            sampled.set()
        def sample():
            sampled.clear()
            assert sampled.wait(20)
            # A sample may have been under way.
            sampled.clear()
            assert sampled.wait(20)
        def run(work, interval):
            def source():
                yield work()
            config = PipelineConfig(SourceConfig(source()), [], SinkConfig(1))
            monitor = lambda: ProcessGroupStatsMonitor(report, interval=interval)
            with build_pipeline(config, num_threads=1, background_tasks=[monitor]).auto_stop() as pipeline:
                list(pipeline)
    """
    command = [sys.executable, "-c", f"{preamble}{code}", *arguments]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, process_group=0)
    return [json.loads(line) for line in run.stdout.splitlines()]


def cpu_seconds(samples: list[dict[str, Any]]) -> float:
    """Return how much CPU time samples tell of, from the first one on."""
    pairs = itertools.pairwise(samples)
    return float(sum(after["cpu_percent"] / 100 * (after["at"] - before["at"]) for before, after in pairs))


def test_samples_of_a_process_alone() -> None:
    first, *others = run_in_a_group("""
        def work():
            for _ in range(2):
                sample()
        run(work, 0.1)
    """)
    assert len(others) >= 2
    assert first["pid"] == first["pgid"] != os.getpid()
    assert first["num_procs"] == 1
    assert {name for name, value in first.items() if value is None} == {"cpu_percent", "net_rx_bytes", "net_tx_bytes"}
    for usage in others:
        assert None not in usage.values()
        assert usage["pid"] == first["pid"]
        assert usage["cpu_percent"] >= 0
    assert cpu_seconds([first, *others]) == pytest.approx(others[-1]["own"] - first["own"], abs=0.1)


def test_cpu_time_of_children_and_of_those_that_come_and_go() -> None:
    """Two children are busy all the time. Each starts between two samples."""
    lines = run_in_a_group("""
        import psutil
        burn = [sys.executable, "-c", "while True: pass"]
        def work():
            # The first sample tells nothing of what was used before it.
            sample()
            children = [subprocess.Popen(burn)]
            sample()
            children.append(subprocess.Popen(burn))
            while any(sum(psutil.Process(child.pid).cpu_times()[:2]) < 0.5 for child in children):
                time.sleep(0.02)
            # Only the kernel knows how much they use after the last sample.
            for child in children:
                child.send_signal(signal.SIGSTOP)
            sample()
            for child in children:
                child.kill()
                child.wait()
            times = os.times()
            print(json.dumps({"used": sum(times[:4])}), flush=True)
        run(work, 0.2)
    """)
    used = next(line["used"] for line in lines if "used" in line)
    samples = lines[: next(index for index, line in enumerate(lines) if "used" in line)]
    assert samples[0]["cpu_percent"] is None
    # The CPU time before the first sample went into imports. One child more or less would make half a second.
    assert cpu_seconds(samples) == pytest.approx(used - samples[0]["own"], abs=0.25)
    assert max(usage["num_procs"] for usage in samples) == 3


def test_memory_disk_and_processes_agree_with_psutil(tmp_path: Path) -> None:
    lines = run_in_a_group(
        """
        import psutil
        child = 'import os, sys; data = os.urandom(32 << 20); print(flush=True); sys.stdin.read()'
        def work():
            children = [
                subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                for _ in range(2)
            ]
            for process in children:
                process.stdout.readline()
            with open(sys.argv[1], "wb") as file:
                file.write(os.urandom(8 << 20))
                file.flush()
                os.fsync(file.fileno())
            sample()
            group = [psutil.Process(process.pid) for process in children] + [psutil.Process()]
            memory = [process.memory_full_info() for process in group]
            print(json.dumps({
                "rss": sum(one.rss for one in memory),
                "pss": sum(one.pss for one in memory),
                "uss": sum(one.uss for one in memory),
                "read": sum(process.io_counters().read_bytes for process in group),
                "written": sum(process.io_counters().write_bytes for process in group),
            }), flush=True)
            for process in children:
                process.communicate()
            sample()
        run(work, 0.1)
        """,
        str(tmp_path / "file"),
    )
    index = next(index for index, line in enumerate(lines) if "uss" in line)
    oracle, usage, last = lines[index], lines[index - 1], lines[-1]
    assert usage["num_procs"] == 3
    assert usage["rss_bytes"] == pytest.approx(oracle["rss"], abs=8 * MEBIBYTE)
    assert usage["pss_bytes"] == pytest.approx(oracle["pss"], abs=8 * MEBIBYTE)
    assert usage["private_bytes"] == pytest.approx(oracle["uss"], abs=8 * MEBIBYTE)
    assert usage["private_bytes"] <= usage["pss_bytes"] <= usage["rss_bytes"]
    assert usage["private_bytes"] > 64 * MEBIBYTE
    assert usage["disk_read_bytes"] == pytest.approx(oracle["read"], abs=MEBIBYTE)
    assert usage["disk_write_bytes"] == pytest.approx(oracle["written"], abs=MEBIBYTE)
    # The children are gone, but the bytes that they read and wrote still count.
    assert last["num_procs"] == 1
    assert last["private_bytes"] < usage["private_bytes"] - 60 * MEBIBYTE
    assert last["disk_write_bytes"] >= usage["disk_write_bytes"]
    assert last["disk_read_bytes"] >= usage["disk_read_bytes"]


def monitored(callback: Any, source: Any, interval: float = 0.05, **options: Any) -> Any:
    declaration = PipelineConfig(SourceConfig(source), [], SinkConfig(1))
    monitor = functools.partial(ProcessGroupStatsMonitor, callback, interval=interval, **options)
    return build_pipeline(declaration, num_threads=1, background_tasks=[monitor])


def until(condition: Callable[[], object]) -> Iterator[int]:
    assert wait_until(condition, 20)
    yield 0


def test_the_network_is_that_of_the_host_without_the_loopback() -> None:
    samples: list[ProcessGroupResourceUsage] = []

    async def callback(usage: ProcessGroupResourceUsage) -> None:
        samples.append(usage)

    def outside() -> int:
        counters = psutil.net_io_counters(pernic=True, nowrap=False)
        return sum(counter.bytes_recv for name, counter in counters.items() if name != "lo")

    before = outside()
    with monitored(callback, until(lambda: len(samples) > 4)).auto_stop() as pipeline:
        list(pipeline)
    # One that was under way at the end may still come.
    reported = list(samples)
    received = [usage.net_rx_bytes for usage in reported if usage.net_rx_bytes is not None]
    assert len(received) == len(reported) - 1
    assert 0 <= sum(received) <= outside() - before


def test_a_process_that_cannot_be_read_for_a_while_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    samples: list[ProcessGroupResourceUsage] = []
    readable = itertools.cycle([True, True, False])
    read_text = Path.read_text

    def read(path: Path, *arguments: Any, **options: Any) -> str:
        if path.name != "io" or path.parent.parent != Path("/proc"):
            return read_text(path, *arguments, **options)
        if path.parent.name == str(os.getpid()) and next(readable):
            return "read_bytes: 1000\nwrite_bytes: 10\n"
        raise PermissionError(path)

    async def callback(usage: ProcessGroupResourceUsage) -> None:
        samples.append(usage)

    monkeypatch.setattr(Path, "read_text", read)
    with monitored(callback, until(lambda: len(samples) > 7), interval=0.01).auto_stop() as pipeline:
        list(pipeline)
    assert {(usage.disk_read_bytes, usage.disk_write_bytes) for usage in samples} == {(1000, 10)}


def test_the_callback_runs_in_this_process_and_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    threads: list[str] = []
    release = threading.Event()

    async def blocking(_: ProcessGroupResourceUsage) -> None:
        threads.append(threading.current_thread().name)
        # A callback should not block, but many will.
        release.wait(20)

    async def source() -> Any:
        assert await asyncio.to_thread(wait_until, lambda: threads, 20)
        for item in range(100):
            await asyncio.sleep(0)
            yield item

    begin = time.monotonic()
    with monitored(blocking, source()).auto_stop() as pipeline:
        assert list(pipeline) == list(range(100))
    assert time.monotonic() - begin < 15
    assert threads == ["spdl_process_group_monitor"]
    (record,) = caplog.records
    assert "blocking" in record.getMessage()
    assert "is abandoned" in record.getMessage()
    release.set()


def test_a_callback_that_raises_is_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    async def callback(_: ProcessGroupResourceUsage) -> None:
        calls.append(1)
        raise OSError("no such host")

    def errors() -> list[logging.LogRecord]:
        # A callback that a busy machine holds up beyond the interval is warned of, too.
        return [record for record in caplog.records if record.levelno == logging.ERROR]

    with monitored(callback, until(lambda: len(calls) >= 3), interval=0.01).auto_stop() as pipeline:
        assert list(pipeline) == [0]
    # One that was under way at the end is logged a moment later.
    assert wait_until(lambda: len(errors()) == len(calls))
    for record in errors():
        assert "callback" in record.getMessage()
        assert "OSError: no such host" in record.getMessage()


def test_a_callback_that_leaves_ends_its_monitor_only(caplog: pytest.LogCaptureFixture) -> None:
    async def callback(_: ProcessGroupResourceUsage) -> None:
        raise SystemExit(3)

    with monitored(callback, until(lambda: caplog.records)).auto_stop() as pipeline:
        assert list(pipeline) == [0]
    # There is a warning as well if a busy machine keeps the thread from ending within the time that it has.
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "ProcessGroupStatsMonitor has ended: SystemExit: 3" in record.getMessage()


def report_from(results: Any) -> None:
    samples: list[ProcessGroupResourceUsage] = []

    async def callback(usage: ProcessGroupResourceUsage) -> None:
        samples.append(usage)

    with monitored(callback, until(lambda: samples)).auto_stop() as pipeline:
        list(pipeline)
    results.put((os.getpid(), samples[0].pid, samples[0].num_procs))


def test_daemonic_processes_may_monitor() -> None:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=report_from, args=(results,), daemon=True)
    process.start()
    own, reported, number = results.get()
    process.join(30)
    results.close()
    assert own == reported == process.pid
    assert number >= 2


def test_elsewhere_than_on_linux_it_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")

    async def callback(_: ProcessGroupResourceUsage) -> None:
        raise AssertionError

    with monitored(callback, [1]).auto_stop() as pipeline:
        assert list(pipeline) == [1]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "/proc" in record.getMessage()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"callback": 3}, TypeError),
        ({"interval": 0}, ValueError),
        ({"interval": -1}, ValueError),
        ({"interval": float("inf")}, ValueError),
        ({"interval": "1"}, TypeError),
        ({"mp_context": "spawn"}, TypeError),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(arguments))):
        ProcessGroupStatsMonitor(**{"callback": print, **arguments})


def test_a_context_is_accepted() -> None:
    samples: list[ProcessGroupResourceUsage] = []

    async def callback(usage: ProcessGroupResourceUsage) -> None:
        samples.append(usage)

    context = multiprocessing.get_context("spawn")
    with monitored(callback, until(lambda: samples), mp_context=context).auto_stop() as pipeline:
        list(pipeline)
    assert samples[0].pid == os.getpid()
    assert samples[0].pgid == os.getpgrp()
