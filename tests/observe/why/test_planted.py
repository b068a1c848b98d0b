"""`spdl why` names what was planted, from outside, in scripts that know nothing of it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.delays import tolerates_delays
from tests.observe.bottlenecks import BOTTLENECKS, PLANTED
from tests.observe.programs import observed, running_script

from spdl.cli._observe.why import STATUS
from spdl.observe._why.diagnose import SECONDS
from spdl.pipeline._metrics.verdict import KINDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def why(pid: int, *options: str) -> tuple[dict[str, Any], int]:
    """Return what `spdl why --json` says, and its exit status."""
    command = [sys.executable, "-c", "import sys; from spdl.cli import main; sys.exit(main())", "why", str(pid)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([*command, "--json", *options], check=False, capture_output=True, env=environment)
    assert not done.stderr, done.stderr.decode()
    return json.loads(done.stdout), done.returncode


def test_there_is_a_script_for_each_kind_and_a_status() -> None:
    assert {path.stem for path in PLANTED.glob("*.py")} == BOTTLENECKS.keys()
    assert {planted.kind for planted in BOTTLENECKS.values()} == KINDS.keys() - {"none"}
    assert STATUS.keys() == KINDS.keys()


def computed() -> float:
    """Return the seconds for which the machine's cores have computed."""
    times = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(times[:3]) + sum(times[5:8])) / os.sysconf("SC_CLK_TCK")


def computed_by(pid: int) -> float:
    """Return the seconds for which a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# What other programs do on the machine may hide it for a moment.
@pytest.mark.flaky(reruns=2)
@pytest.mark.parametrize("script", BOTTLENECKS)
def test_it_is_named(script: str) -> None:
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
    assert status == STATUS[verdict["kind"]]


def rate(process: subprocess.Popen[bytes]) -> float:
    """Return how many items a program takes per second."""
    page = observed(process, lambda seen: seen.delivered >= 20)
    before = page.observe()
    time.sleep(2)
    after = page.observe()
    return (after.delivered - before.delivered) / (after.now - before.now)


# The stages that wait and do not compute: other work on the machine does not change what they gain. benchmarks/why.py
# tries the others as well.
WAITING = [name for name, it in BOTTLENECKS.items() if it.stage and not it.computes and not it.no_gain]


@pytest.mark.flaky(reruns=2)
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


@tolerates_delays
def test_it_answers_within_two_seconds() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with running_script(PLANTED / "io.py") as process:
        observed(process, lambda seen: seen.delivered >= 20)
        # The script counts only once it has ended, and so does not here.
        verdict, _ = why(process.pid)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert verdict["kind"] == "I/O"
    # What it does besides watching, without what other programs on the machine take.
    computed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert SECONDS + computed < 2


def test_a_process_without_a_pipeline_is_told() -> None:
    command = [sys.executable, "-c", "import sys; from spdl.cli import main; sys.exit(main())", "why", str(os.getpid())]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"process {os.getpid()} runs no pipeline" in done.stderr
