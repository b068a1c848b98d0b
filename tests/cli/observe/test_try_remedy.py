"""`spdl why --try` sets what it recommends for a while, and the pipeline has its own limits afterwards."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from tests.cli.observe.watched import PLANTED, TWO, begun
from tests.cli.running import call
from tests.cli.running import running as running_command
from tests.observe.asking import ask_until
from tests.observe.programs import observed, running, running_script

from spdl.observe import find_pipelines

if TYPE_CHECKING:
    import subprocess

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.timeout(240)]

PROGRAM = """
import time
from spdl.pipeline import PipelineBuilder

def op(number):
    time.sleep(0.02)
    return number

builder = PipelineBuilder().add_source(range(10**9)).pipe(op, name="op"{arguments})
with builder.add_sink(4).build(num_threads=4{tune}).auto_stop() as pipeline:
    for number in pipeline:
        {step}
"""
TUNED = (
    PROGRAM.replace("0.02", "0.5").replace("num_threads=4", "").format(arguments="", tune="autotune=True", step="pass")
)


def has_slots(process: subprocess.Popen[bytes], concurrency: int) -> None:
    observed(process, lambda seen: seen.stages[0].concurrency == concurrency)


def test_the_limits_are_set_and_put_back() -> None:
    with running_script(PLANTED / "io.py") as process:
        begun(process)
        with running_command("why", "--try", str(process.pid), "--trial-seconds", "1", "--json") as why:
            observed(process, lambda seen: seen.stages[0].concurrency > 2)
            output, errors = why.communicate(timeout=100)
        has_slots(process, 2)
        assert find_pipelines(process.pid)[0].observe().num_threads == 4
    assert (why.returncode, errors) == (13, "")
    verdict = json.loads(output)
    tried = verdict["tried"]
    assert (tried["seconds"], tried["error"]) == (1, "")
    # Ops that wait take no core, so that this holds on a busy machine.
    assert tried["gain"] == pytest.approx(tried["after"] / tried["before"])
    assert tried["gain"] > 1.5


def test_they_are_put_back_if_who_asked_is_killed() -> None:
    with running_script(PLANTED / "io.py") as process:
        begun(process)
        with running_command("why", str(process.pid), "--try", "--trial-seconds", "0.5") as why:
            observed(process, lambda seen: seen.stages[0].concurrency > 2)
            why.kill()
        has_slots(process, 2)


def test_limits_that_the_program_sets_stay() -> None:
    # It sets 3 slots as soon as it sees that there are others than its own.
    sets = 'pipeline.statistics().stages[1].concurrency > 1 and pipeline.set_concurrency("op", 3)'
    with running(PROGRAM.format(arguments=", concurrency=1", tune="", step=sets)) as process:
        begun(process)
        assert "put back" in call("why", str(process.pid), "--try", "--trial-seconds", "0.5").stdout
        has_slots(process, 3)
        before = find_pipelines(process.pid)[0].observe().delivered
        observed(process, lambda seen: seen.delivered > before + 20)
        has_slots(process, 3)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (TWO, "2 pipelines run. Name one"),
        (TUNED, "is tuned already"),
        (PROGRAM.format(arguments=", concurrency=4", tune="", step="time.sleep(0.1)"), "does not only set the"),
        ((PLANTED / "serial_source.py").read_text(encoding="utf-8"), "the remedy moves work out of the source"),
    ],
)
def test_what_cannot_be_tried_is_told(program: str, says: str) -> None:
    def ask() -> str:
        done = call("why", str(process.pid), "--try", "--trial-seconds", "0.1", "--seconds", "0.5")
        return done.stdout + done.stderr

    with running(program) as process:
        begun(process)
        assert says in ask_until(ask, lambda said: says in said)


def test_a_pipeline_that_ends_is_told() -> None:
    program = PROGRAM.format(arguments=", concurrency=1", tune="", step="pass").replace("10**9", "150")
    with running(program) as process:
        begun(process)
        done = call("why", str(process.pid), "--try", "--trial-seconds", "30")
    assert "Not tried: the pipeline has ended." in done.stdout, done.stdout + done.stderr
