"""`spdl why` names what was planted, from outside, in scripts that know nothing of it."""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.running import call, run
from tests.observe.asking import ask_until
from tests.observe.bottlenecks import BOTTLENECKS, PLANTED
from tests.observe.programs import observed, running_script

if TYPE_CHECKING:
    import subprocess

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.timeout(240)]


def why(pid: int, *options: str) -> tuple[dict[str, Any], int]:
    """Return what `spdl why --json` says, and its exit status."""
    done = call("why", str(pid), "--json", *options)
    assert not done.stderr, done.stderr
    return json.loads(done.stdout), done.returncode


@pytest.fixture(scope="module")
def statuses() -> dict[str, int]:
    """Return the exit status of each kind, as the command's help tells."""
    told = run("why", "--help", environment={**os.environ, "COLUMNS": "1000"}).stdout
    listed = re.search(r"0 for no limit in the loader, (.*?)\.", told)
    assert listed is not None
    found = {kind: int(status) for status, kind in (each.split(" ", 1) for each in listed[1].split(", "))}
    return {"none": 0, "slow consumer": 0} | found


def test_there_is_a_script_for_each_kind(statuses: dict[str, int]) -> None:
    assert {path.stem for path in PLANTED.glob("*.py")} == BOTTLENECKS.keys()
    # The beginnings of iterations are measured in PyTorch's loaders, and what is unclear depends on the machine.
    planted = {planted.kind for planted in BOTTLENECKS.values()}
    assert planted == statuses.keys() - {"none", "start", "unclear"}
    assert len({*statuses.values()}) == len(statuses) - 1


@pytest.mark.parametrize("script", ["io", "hang", "slow_consumer"])
def test_what_does_not_compute_is_named_whatever_else_the_machine_does(script: str, statuses: dict[str, int]) -> None:
    planted = BOTTLENECKS[script]
    with running_script(PLANTED / f"{script}.py") as process:
        observed(process, lambda seen: seen.delivered >= 20)
        verdict, status = ask_until(
            lambda: why(process.pid), lambda it: (it[0]["stage"], it[0]["kind"]) == (planted.stage, planted.kind)
        )
    assert (verdict["stage"], verdict["kind"]) == (planted.stage, planted.kind), verdict["sentence"]
    assert status == statuses[verdict["kind"]]
    if script == "io":
        assert verdict["predicted_gain"] > 1
        assert verdict["settings"].keys() == set(planted.settings)


def computed() -> float:
    """Return the seconds for which the machine's cores have computed."""
    times = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(times[:3]) + sum(times[5:8])) / os.sysconf("SC_CLK_TCK")


def computed_by(pid: int) -> float:
    """Return the seconds for which a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Each has one try, on a machine that may do other things.
@pytest.mark.long
@pytest.mark.parametrize("script", BOTTLENECKS)
def test_it_is_named_at_once(script: str, statuses: dict[str, int]) -> None:
    planted = BOTTLENECKS[script]
    with running_script(PLANTED / f"{script}.py") as process:
        observed(process, lambda seen: seen.delivered >= 20)
        # A hang is told by how long it lasts.
        time.sleep(4 if script == "hang" else 1)
        began, all_before, own_before = time.monotonic(), computed(), computed_by(process.pid)
        verdict, status = why(process.pid)
        others = computed() - all_before - (computed_by(process.pid) - own_before)
        seconds = time.monotonic() - began
    # The command itself needs half of a core for a moment.
    if planted.computes and verdict["kind"] != planted.kind and others > 0.7 * seconds:
        pytest.skip(f"other programs had {others / seconds:.1f} cores, so that is not what limited it")
    assert (verdict["stage"], verdict["kind"]) == (planted.stage, planted.kind), verdict["sentence"]
    assert status == statuses[verdict["kind"]]


def rate(process: subprocess.Popen[bytes]) -> float:
    """Return how many items a program takes per second."""
    page = observed(process, lambda seen: seen.delivered >= 20)
    before = page.observe()
    time.sleep(2)
    after = page.observe()
    return (after.delivered - before.delivered) / (after.now - before.now)


# The stages that wait and do not compute: other work on the machine does not change what they gain. benchmarks/why.py
# tries the others as well.
WAITING = [
    name for name, it in BOTTLENECKS.items() if it.stage and not it.computes and not it.no_gain + it.no_prediction
]


# It compares real rates.
@pytest.mark.long
@pytest.mark.parametrize("script", WAITING)
def test_the_predicted_gain_is_what_the_remedy_gains(script: str) -> None:
    path, planted = PLANTED / f"{script}.py", BOTTLENECKS[script]
    with running_script(path) as process:
        observed(process, lambda seen: seen.delivered >= 20)
        verdict, _ = why(process.pid, "--seconds", "2")
        before = rate(process)
    assert verdict["kind"] == planted.kind, verdict["sentence"]
    with running_script(path, *planted.remedied(verdict)) as process:
        gain = rate(process) / before
    assert verdict["predicted_gain"] == pytest.approx(gain, rel=0.25), verdict["sentence"]


def answered(*, within: float) -> None:
    """Let a program be watched, and see that the command itself computes for no longer than some seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with running_script(PLANTED / "io.py") as process:
        observed(process, lambda seen: seen.delivered >= 20)
        # The script counts only once it has ended, and so does not here.
        assert run("why", str(process.pid)).returncode in range(22)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # What it does besides watching, without what other programs on the machine take.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < within


def test_it_computes_little() -> None:
    answered(within=5)


@pytest.mark.long
def test_it_answers_within_two_seconds_of_which_it_watches_for_more_than_one() -> None:
    answered(within=0.8)


def test_a_process_without_a_pipeline_is_told() -> None:
    done = call("why", str(os.getpid()))
    assert done.returncode == 1
    assert f"process {os.getpid()} runs no pipeline" in done.stderr
