"""`spdl stack` on programs that run, hang, and were killed."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any

import pytest
from tests.cli.running import call
from tests.observe.programs import observed, running

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"), pytest.mark.timeout(240)]

PROGRAM = """
import threading, time
from spdl.pipeline import PipelineBuilder

LOCK = threading.Lock()

def write(batch):
    LOCK.acquire()
    time.sleep(0.001)
    if 80 not in batch:
        LOCK.release()
    return batch

def fetch(item):
    time.sleep(0.002)
    return item

builder = PipelineBuilder().add_source(range(10**9)).pipe(fetch, concurrency=2).aggregate(8)
pipeline = builder.pipe(write, concurrency=2).add_sink(4).build(num_threads=5)
with pipeline.auto_stop():
    for _ in pipeline:
        pass
"""


@pytest.fixture(autouse=True)
def enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDL_STACKS", "1")


def hangs(seen: Any) -> bool:
    # The sources come first, and then fetch, aggregate and write.
    hanging = [it for it in seen.threads if it.part == 3 and time.perf_counter() - it.since > 0.5]
    return len(hanging) == 2


def test_a_hang_is_shown_with_its_item_and_line() -> None:
    with running(PROGRAM) as process:
        observed(process, hangs)
        shown = call("stack", str(process.pid))
        found = json.loads(call("stack", str(process.pid), "--json").stdout)
    assert (shown.returncode, shown.stderr) == (0, "")
    (pipeline,) = found["pipelines"]
    writing = [each for each in pipeline["threads"] if each["name"] == "write"]
    assert len(writing) == 2
    for each in writing:
        # Both wait for the lock that the batch with item 80 has not given back.
        assert each["position"] >= 70
        assert not each["is_whole"]
        assert each["frames"][0]["function"] == "write"
        assert each["frames"][0]["line"] == 8
        assert each["seconds"] > 0.4
        position = f"{each['position']:,}"
        assert re.search(rf"^  write: made of items from {position}, for [\d.]+ s; waits", shown.stdout, re.MULTILINE)
    assert re.search(r"^  \d threads? waits? for work$", shown.stdout, re.MULTILINE)
    assert re.search(r"^      write  <string>:8$", shown.stdout, re.MULTILINE)
    assert found["stacks_by"] in {"py-spy", "signal"}


def test_a_killed_process_is_told_of_what_it_had_begun() -> None:
    with running(PROGRAM) as process:
        observed(process, hangs)
        process.kill()
        process.wait()
        shown = call("stack", str(process.pid))
    assert shown.returncode == 3
    assert "  write: made of items from" in shown.stdout
    assert "No stacks: the process was killed" in shown.stdout


def test_a_process_without_pipelines_is_told() -> None:
    pid = os.getpid()
    shown = call("stack", str(pid))
    assert shown.returncode == 1
    assert f"process {pid} runs no pipeline" in shown.stderr
