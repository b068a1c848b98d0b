"""`spdl why`, `spdl top`, `spdl stack` and `spdl record` on jobs of several processes, named by any of these."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.running import call, run
from tests.observe.asking import ask_until
from tests.observe.programs import running, running_script

from spdl.observe import ObservedPipeline, PageError, find_pipelines

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"), pytest.mark.timeout(240)]

PLANTED = Path(__file__).parents[2] / "observe" / "planted"

# Starts each script as a rank, as a launcher does.
LAUNCHER = """
import os, subprocess, sys
scripts, world_size, port = {scripts!r}, {world_size!r}, {port!r}
ranks = []
for rank, script in enumerate(scripts):
    told = dict(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=world_size, MASTER_ADDR="localhost", MASTER_PORT=port)
    told["LOCAL_WORLD_SIZE"] = str(len(scripts))
    ranks.append(subprocess.Popen([sys.executable, script], env=dict(os.environ, **told)))
for rank in ranks:
    rank.wait()
"""


@contextmanager
def job(*scripts: str, world_size: int = 2, port: int = 29555) -> Iterator[tuple[int, list[int]]]:
    """Run planted scripts as the ranks of a job, and yield the numbers of its launcher and of its ranks, in order."""
    paths = [str(PLANTED / script) for script in scripts]
    program = LAUNCHER.format(scripts=paths, world_size=str(world_size), port=str(port))
    pids: list[int] = []
    try:
        with running(program) as launcher:
            found = descendants(launcher, len(scripts))
            pids += [each.head.pid for each in sorted(found, key=lambda each: int(each.head.ranks["RANK"]))]
            yield launcher.pid, pids
    finally:
        remove(pids)


def started(process: subprocess.Popen[bytes]) -> int:
    """Return the process that another one has started, as soon as it has."""
    deadline = time.monotonic() + 50
    while not (found := children(process.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found[0]


def remove(pids: list[int]) -> None:
    for pid in pids:
        for pipeline in find_pipelines(pid):
            pipeline.remove()


def children(pid: int) -> list[int]:
    """Return the processes that a process has started, as the kernel lists them."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for found in lists for child in found.split()]


def descendants(process: subprocess.Popen[bytes], number: int) -> list[ObservedPipeline]:
    """Return a pipeline of each process below another one as soon as so many of them have given five items of one."""
    deadline = time.monotonic() + 50
    # Those of short epochs need not run at the same time.
    seen: dict[int, ObservedPipeline] = {}
    while time.monotonic() < deadline:
        assert process.poll() is None, "the program has ended"
        pids = [process.pid]
        for pid in pids:
            pids += children(pid)
            found = [pipeline for pipeline in find_pipelines(pid) if pid != process.pid and delivered(pipeline) >= 5]
            if found:
                seen[pid] = found[-1]
        if len(seen) >= number:
            return list(seen.values())
        time.sleep(0.01)
    raise AssertionError(f"there were not pipelines in {number} processes within 50 s")


def delivered(pipeline: ObservedPipeline) -> float:
    try:
        return pipeline.observe().delivered
    except PageError:
        return 0.0


def why(pid: int) -> Any:
    return json.loads(call("why", str(pid), "--json").stdout)


class TestLauncher:
    def test_all_ranks_are_told_of_and_which_one_the_others_wait_for(self) -> None:
        with job("slow_consumer.py", "io.py") as (launcher, (first, second)):
            kinds = ["slow consumer", "I/O"]
            words = ["Slow consumer. ", "I/O. 'fetch': ", "limits the job"]
            shown = ask_until(lambda: call("why", str(launcher)), lambda done: all(it in done.stdout for it in words))
            listed = ask_until(lambda: why(launcher), lambda found: [each["kind"] for each in found] == kinds)
        assert (shown.returncode, shown.stderr) == (13, "")
        lines = shown.stdout.splitlines()
        assert lines[0].startswith(f"rank 0 (pid {first}): Slow consumer. ")
        assert "Its training loop may wait in a collective for rank 1: see there." in lines[0]
        assert "Make the training step faster" not in lines[0]
        assert lines[1].startswith(f"rank 1 (pid {second}): I/O. 'fetch': ")
        (together,) = lines[2:]
        assert together == (
            "The loader of rank 1 limits the job: rank 0 waits for its own training loop, which may wait in a "
            "collective for rank 1."
        )
        assert [(each["rank"], each["pid"], each["kind"]) for each in listed] == [
            ("0", first, "slow consumer"),
            ("1", second, "I/O"),
        ]
        assert "rank 1" in listed[0]["remedy"]

    def test_ranks_that_are_all_slow_may_wait_for_another_machine(self) -> None:
        with job("slow_consumer.py", "slow_consumer.py", world_size=4) as (launcher, _):
            unseen = "for a rank that is not seen here"
            some = ask_until(lambda: call("why", str(launcher)).stdout, lambda said: said.count(unseen) == 2)
        with job("slow_consumer.py", "slow_consumer.py") as (launcher, _):
            nothing = "a faster loader gains nothing."
            all_of_them = ask_until(lambda: call("why", str(launcher)).stdout, lambda said: said.count(nothing) == 2)
        assert some.count(unseen) == 2
        assert all_of_them.count(nothing) == 2
        assert "limits the job" not in some + all_of_them

    def test_one_rank_alone_may_wait_for_another_one(self) -> None:
        with job("slow_consumer.py", "io.py") as (_, (first, second)):
            waits = ask_until(lambda: why(first), lambda verdict: verdict["kind"] == "slow consumer")
            limits = ask_until(lambda: why(second), lambda verdict: verdict["kind"] == "I/O")
        assert "for another of the 2 ranks" in waits["remedy"]
        assert "`spdl why` without a PID looks at all ranks on this machine." in waits["remedy"]
        assert "ranks" not in limits["sentence"]
        with running_script(PLANTED / "slow_consumer.py") as process:
            delivering(process.pid)
            remedy = "Make the training step faster; a faster loader gains nothing."
            verdict = ask_until(lambda: why(process.pid), lambda verdict: verdict["remedy"] == remedy)
        assert verdict["remedy"] == remedy

    def test_other_commands_show_each_rank_too(self, tmp_path: Path) -> None:
        with job("slow_consumer.py", "io.py") as (launcher, pids):
            top = call("top", str(launcher), "--once").stdout
            stack = json.loads(call("stack", str(launcher), "--json").stdout)
            trace = tmp_path / "trace.json.gz"
            record = run("record", str(launcher), "--seconds", "0.2", "-o", trace)
        for rank, pid in enumerate(pids):
            assert f"(pid {pid}, rank {rank})" in top
            assert f"rank {rank} (pid {pid})" in record.stderr
        assert [each["pid"] for each in stack] == pids
        assert (record.returncode, list(tmp_path.iterdir())) == (0, [trace])

    def test_top_goes_on_with_the_ranks_until_they_end(self) -> None:
        with job("io.py", "io.py") as (launcher, pids):
            shown = call("top", str(launcher), "--interval", "0.2", "--once", "--json").stdout
            assert [each["pid"] for each in json.loads(shown)] == pids

    def test_ranks_between_two_epochs_are_waited_for(self, tmp_path: Path) -> None:
        # Most of the time neither has a pipeline.
        script = tmp_path / "epochs.py"
        script.write_text(_EPOCHS)
        with job(str(script), str(script)) as (launcher, pids):
            for _ in range(3):
                shown = call("why", str(launcher), "--json")
                assert [each["pid"] for each in json.loads(shown.stdout)] == pids

    @pytest.mark.parametrize("words", [("timeout", "--foreground", "600"), ("sh", "-c", '"$@"; exit 3', "sh")])
    def test_one_process_behind_another_program_is_named(self, words: tuple[str, ...], tmp_path: Path) -> None:
        command = [*words, sys.executable, str(PLANTED / "io.py")]
        with running(f"import subprocess; subprocess.run({command!r})") as process:
            (pipeline,) = descendants(process, 1)
            pid = pipeline.head.pid
            # What stands between the two.
            (wrapper,) = children(process.pid)
            assert wrapper != pid
            shown = ask_until(lambda: call("why", str(wrapper)), lambda done: ": I/O. " in done.stdout)
            record = run("record", str(wrapper), "--seconds", "0.1", "-o", tmp_path / "trace.json.gz")
        remove([pid])
        assert shown.stdout.startswith(f"pid {pid}: I/O. 'fetch': ")
        assert record.returncode == 0, record.stderr
        assert f"of process {pid} (io.py)" in record.stderr


_EPOCHS = """
import time
from spdl.pipeline import PipelineBuilder

def fetch(number):
    time.sleep(0.02)
    return number

while True:
    with PipelineBuilder().add_source(range(10)).pipe(fetch).add_sink(4).build(num_threads=1).auto_stop() as pipeline:
        for _ in pipeline:
            pass
    time.sleep(0.5)
"""


def delivering(pid: int) -> None:
    deadline = time.monotonic() + 50
    while not any(delivered(pipeline) >= 5 for pipeline in find_pipelines(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestPartsOfAProcess:
    def test_a_worker_stands_for_the_process_that_has_started_it(self) -> None:
        with running_script(PLANTED / "pickling.py") as process:
            delivering(process.pid)
            worker = children(process.pid)[-1]
            shown = call("why", str(worker), "--json")
            top = call("top", str(worker), "--once", "--json")
        verdict = json.loads(shown.stdout)
        assert verdict["pid"] == process.pid
        assert verdict["stage"]
        told = f"process {worker} runs no pipeline, so this is of process {process.pid}, which has started it"
        assert shown.stderr == f"spdl: {told}\n"
        assert [each["pid"] for each in json.loads(top.stdout)] == [process.pid]

    def test_a_thread_stands_for_its_process(self) -> None:
        with running_script(PLANTED / "io.py") as process:
            delivering(process.pid)
            thread = max(int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir())
            assert thread != process.pid
            assert why(thread)["pid"] == process.pid


class TestWithoutAProcess:
    """Other programs of this machine may run pipelines, so what there is to find is given here."""

    def test_all_ranks_of_the_only_job_are_looked_at(self) -> None:
        with job("slow_consumer.py", "io.py") as (_, (first, second)):
            done = ask_until(
                lambda: run("why", pids=[first, second]), lambda done: "The loader of rank 1 limits" in done.stdout
            )
        assert done.returncode == 13
        assert f"rank 0 (pid {first}): Slow consumer. " in done.stdout
        assert f"rank 1 (pid {second}): I/O. " in done.stdout
        assert "The loader of rank 1 limits the job: " in done.stdout

    def test_the_only_process_needs_no_name(self) -> None:
        with running_script(PLANTED / "io.py") as process:
            delivering(process.pid)
            done = ask_until(lambda: run("why", pids=[process.pid]), lambda done: done.stdout.startswith("I/O. "))
        assert done.returncode == 13
        assert done.stdout.startswith("I/O. ")

    def test_processes_of_several_jobs_are_named_with_their_ranks(self) -> None:
        with job("io.py", "io.py") as (_, first), job("io.py", "io.py", port=29556) as (_, second):
            told = [run(command, pids=[*first, *second]) for command in ("why", "stack")]
        for done in told:
            assert done.returncode == 2
            assert "2 programs run pipelines, so name a process of one, or what has started it: " in done.stderr
            for pids in (first, second):
                for rank, pid in enumerate(pids):
                    assert f"{pid} (io.py, rank {rank})" in done.stderr


SPAWNS = """
import itertools, multiprocessing, os, time
from spdl.pipeline import PipelineBuilder

def train(rank, barrier):
    def fetch(number):
        time.sleep((0.06, 0.001)[rank == 0])
        return number

    os.environ["MASTER_PORT"] = "29557"
    builder = PipelineBuilder().add_source(itertools.count()).pipe(fetch, name="fetch").add_sink(4)
    with builder.build(num_threads=1).auto_stop() as pipeline:
        for _ in pipeline:
            barrier.wait()

barrier = multiprocessing.get_context("fork").Barrier(3)
for rank in range(3):
    multiprocessing.get_context("fork").Process(target=train, args=(rank, barrier)).start()
"""


def test_processes_that_know_only_where_they_meet_are_named_by_their_numbers() -> None:
    with running(SPAWNS) as process:
        pids = sorted(each.head.pid for each in descendants(process, 3))
        shown = ask_until(lambda: call("why", str(process.pid)).stdout, lambda said: "limit the job" in said)
    remove(pids)
    *verdicts, together = shown.splitlines()
    kinds = {}
    for line in verdicts:
        found = re.match(r"pid (\d+): ([A-Z][^.]*)\.", line)
        assert found, line
        kinds[int(found[1])] = found[2]
    assert sorted(kinds) == pids
    (waits,) = [pid for pid, kind in kinds.items() if kind == "Slow consumer"]
    first, second = sorted(set(pids) - {waits})
    assert together.startswith(
        f"The loaders of processes {first} and {second} limit the job: process {waits} waits for its own training loop"
    )


RANK = """
import itertools, sys, time
import torch.distributed as dist
import torch
from spdl.pipeline import PipelineBuilder

dist.init_process_group("gloo")
seconds = 0.06 if dist.get_rank() == 1 else 0.001

def fetch(number):
    time.sleep(seconds)
    return number

builder = PipelineBuilder().add_source(itertools.count()).pipe(fetch, name="fetch").add_sink(4)
with builder.build(num_threads=1).auto_stop() as pipeline:
    for item in pipeline:
        dist.all_reduce(torch.ones(1))
"""


# Launchers that need no PyTorch stand for this one in the tests above.
@pytest.mark.long
def test_ranks_of_torchrun_that_wait_for_each_other(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(RANK)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    with running(f"import subprocess, sys; subprocess.run([sys.executable, *{command!r}])") as process:
        launcher = started(process)
        try:
            descendants(process, 2)
            shown = call("why", str(launcher)).stdout
        finally:
            # They are of sessions of their own, and live on without it.
            os.kill(launcher, signal.SIGTERM)
            process.wait(timeout=100)
    rank_0, rank_1, together = shown.splitlines()
    assert re.match(r"rank 0 \(pid \d+\): Slow consumer\. ", rank_0)
    assert re.match(r"rank 1 \(pid \d+\): I/O\. 'fetch': ", rank_1)
    assert together.startswith("The loader of rank 1 limits the job: rank 0 waits for its own training loop")
