"""`spdl why` and `spdl top` on programs that make a pipeline for each epoch, which ends before much was seen of it."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import call
from tests.cli.running import running as running_command
from tests.observe.asking import ask_until
from tests.observe.programs import observed, running

from spdl.observe import find_pipelines

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]

# Each epoch takes a quarter of a second.
EPOCHS = """
import threading, time
from spdl.pipeline import PipelineBuilder

def fetch(number):
    time.sleep(0.05)
    return number

def decode(number):
    time.sleep(0.01)
    return number

def train(concurrency):
    while True:
        builder = PipelineBuilder().add_source(range(5 * concurrency))
        builder.pipe(fetch, name="fetch", concurrency=concurrency).pipe(decode, name="decode").add_sink(4)
        with builder.build(num_threads=8).auto_stop() as pipeline:
            for _ in pipeline:
                pass
        time.sleep({pause})

for concurrency in {concurrencies}:
    threading.Thread(target=train, args=(concurrency,)).start()
threading.Event().wait()
"""


def epochs(*concurrencies: int, pause: float = 0.05) -> str:
    return EPOCHS.format(concurrencies=concurrencies or (2,), pause=pause)


def later(process: subprocess.Popen[bytes]) -> None:
    """Wait for a pipeline that is not the first one of a process."""
    while True:
        pipeline = observed(process, lambda seen: seen.delivered >= 2)
        if pipeline.head.pipeline > 0:
            return


def why(process: subprocess.Popen[bytes], *options: str) -> Any:
    done = call("why", str(process.pid), "--json", *options)
    assert not done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("pause", [0.0, 0.2])
def test_those_that_follow_are_watched_too(pause: float) -> None:
    def is_right(verdict: dict[str, Any]) -> bool:
        # On a busy machine an epoch may take as long as it is watched.
        return (verdict["kind"], verdict["stage"]) == ("I/O", "fetch") and len(verdict["watched"]) > 1

    with running(epochs(pause=pause)) as process:
        later(process)
        verdict = ask_until(lambda: why(process), is_right)
        text = ask_until(lambda: call("why", str(process.pid)).stdout, lambda text: text.startswith("(Of pipelines "))
    first, *others = verdict["watched"]
    assert others == list(itertools.islice(itertools.count(first + 1), len(others)))
    assert len(others) >= 1
    assert (verdict["kind"], verdict["stage"]) == ("I/O", "fetch"), verdict["sentence"]
    assert "has ended" not in verdict["sentence"]
    # Its ops take five times as long as the next ones, and have two slots where these have one.
    assert 1 < verdict["predicted_gain"] < 8, verdict["sentence"]
    assert text.startswith("(Of pipelines ")


def test_those_that_run_beside_each_other_are_told_apart() -> None:
    with running(epochs(1, 4)) as process:
        later(process)
        verdicts = ask_until(
            lambda: why(process),
            # Of one alone it is no list.
            lambda verdicts: len(verdicts) == 2 and {verdict["stage"] for verdict in verdicts} == {"fetch"},
        )
    assert len(verdicts) == 2
    one, other = (set(verdict["watched"]) for verdict in verdicts)
    assert not one & other
    # Each goes on with whichever follows: their stages have the same names.
    assert {verdict["stage"] for verdict in verdicts} == {"fetch"}


def test_one_that_is_named_stands_for_no_other() -> None:
    with running(epochs()) as process:
        later(process)
        (number,) = {pipeline.head.pipeline for pipeline in find_pipelines(process.pid)} or {0}
        done = call("why", str(process.pid), "--json", "--pipeline", str(number))
    # It may have ended before the command looks.
    assert done.returncode == 1 or json.loads(done.stdout)["watched"] == [number]


def test_top_shows_what_limits_those_that_run() -> None:
    def tables(process: subprocess.Popen[bytes]) -> Any:
        return json.loads(call("top", str(process.pid), "--once", "--json").stdout)

    with running(epochs()) as process:
        later(process)
        (table,) = ask_until(
            lambda: tables(process),
            lambda found: (
                [(it["verdict"]["kind"], it["ending"]) for it in found] == [("I/O", None)]
                and found[0]["verdict"]["predicted_gain"] is not None
            ),
        )
    assert table["verdict"]["kind"] == "I/O"
    assert table["verdict"]["predicted_gain"] is not None
    assert table["ending"] is None


LAST = """
import sys
from spdl.pipeline import PipelineBuilder

builder = PipelineBuilder().add_source(range(60)).pipe(abs, name="op").add_sink(2)
with builder.build(num_threads=1).auto_stop() as pipeline:
    for item in pipeline:
        if item == 5:
            sys.stdin.readline()
sys.stdin.readline()
"""


def test_one_that_nothing_follows_is_told_of_as_it_was() -> None:
    with running(LAST, stdin=subprocess.PIPE) as process:
        pipeline = observed(process, lambda seen: seen.delivered >= 5)
        assert process.stdin is not None
        with running_command("why", str(process.pid), "--json", "--seconds", "5") as command:
            opens(command.pid, pipeline.path)
            # It goes on while it is watched.
            process.stdin.write(b"\n")
            process.stdin.flush()
            shown, _ = command.communicate(timeout=100)
        assert command.returncode == 0
        assert process.poll() is None
        process.stdin.close()
    verdict = json.loads(shown)
    assert pipeline.state() == "ended"
    assert (verdict["watched"], verdict["state"]) == ([0], "ended")


def opens(pid: int, path: Path) -> None:
    """Wait until a process has opened a file."""
    deadline = time.monotonic() + 60
    while True:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            # It may be closed meanwhile.
            with suppress(OSError):
                if link.readlink() == path:
                    return
        assert time.monotonic() < deadline
        time.sleep(0.01)
