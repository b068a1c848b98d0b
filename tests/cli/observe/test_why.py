"""`spdl why` on programs that run, hang, and were killed."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import ExitStack

import pytest
from tests.cli.observe.watched import PLANTED, STUCK, TWO, begun, why
from tests.cli.running import call, run
from tests.observe.asking import ask_until
from tests.observe.programs import observed, running_script
from tests.observe.programs import running as running_program

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]


_HANGS_AFTER_SOME = """
import asyncio, itertools, threading, time
from spdl.pipeline import PipelineBuilder

def numbers():
    for number in itertools.count():
        if number == 30 and {source}:
            threading.Event().wait()
        yield number

def in_thread(number):
    time.sleep(1000 if number == 20 else 0.01)
    return number

async def on_loop(number):
    await asyncio.sleep(1000 if number == 20 else 0.01)
    return number

def quick(number):
    time.sleep(0.01)
    return number

builder = PipelineBuilder().add_source(numbers()).pipe({op}, name="op").aggregate({size})
with builder.add_sink(2).build(num_threads=1).auto_stop() as pipeline:
    for _ in pipeline:
        pass
"""

_HANGS = {
    "in a thread": _HANGS_AFTER_SOME.format(source=False, op="in_thread", size=2),
    "on the event loop": _HANGS_AFTER_SOME.format(source=False, op="on_loop", size=2),
    "source": _HANGS_AFTER_SOME.format(source=True, op="quick", size=2),
}

_BATCHES = _HANGS_AFTER_SOME.format(source=False, op="quick", size=10**9)


class TestWhy:
    def test_a_process_that_is_stuck_in_c_and_holds_the_gil_is_diagnosed(self) -> None:
        with running_program(STUCK) as process:
            observed(
                process, lambda seen: any(time.perf_counter() - it.since > 3 for it in seen.threads if it.part == 1)
            )
            verdict = why(process.pid)
        assert (verdict["kind"], verdict["stage"]) == ("hang", "parse"), verdict["sentence"]

    def test_a_killed_process_is_told_of_what_it_did(self) -> None:
        with running_script(PLANTED / "io.py") as process:
            observed(process, lambda seen: seen.delivered >= 60)
            process.kill()
            process.wait()
            verdict = why(process.pid)
            text = call("why", str(process.pid))
        assert (verdict["state"], verdict["kind"], verdict["stage"]) == ("killed", "unclear", "fetch"), verdict[
            "sentence"
        ]
        assert text.stdout.startswith("(It was killed.) ")
        assert text.returncode == 23

    def test_a_hang_is_told_although_the_process_was_killed_and_a_long_wait_for_a_batch_is_none(self) -> None:
        expected = {
            _HANGS["in a thread"]: ("hang", "op", 19),
            _HANGS["on the event loop"]: ("hang", "op", 19),
            _HANGS["source"]: ("hang", "src", 19),
            _BATCHES: ("I/O", "op", 13),
        }
        with ExitStack() as stack:
            started = [stack.enter_context(running_program(program)) for program in expected]
            for process, (kind, stage, status) in zip(started, expected.values(), strict=True):
                # Nobody has looked while it hung. The page itself says for how long it was written without a change: it
                # is written about 1 s and 6 s after the last one. The consumer may have waited long before that.
                observed(process, lambda seen: 0 < seen.consumer_waiting_since < seen.now - 5)
                process.kill()
                process.wait()
                shown = call("why", str(process.pid), "--json")
                verdict = json.loads(shown.stdout)
                assert (verdict["kind"], verdict["stage"], shown.returncode) == (kind, stage, status), verdict[
                    "sentence"
                ]
                if kind == "hang":
                    (seconds,) = re.findall(r"for ([\d.]+) s, or longer", verdict["evidence"])
                    assert float(seconds) > 3
                    assert "and nothing else moved." in verdict["evidence"]
                    assert "The process was killed" in verdict["evidence"]

    def test_items_that_are_lost_are_told_whatever_is_the_limit(self) -> None:
        program = """
import itertools, logging, time
from spdl.pipeline import PipelineBuilder

def op(number):
    time.sleep(0.005)
    if number % 10 < 3:
        raise OSError("gone")
    return number

pipeline = PipelineBuilder().add_source(itertools.count()).pipe(op, name="read", concurrency=4).add_sink(2)
with pipeline.build(num_threads=4).auto_stop() as pipeline:
    for _ in pipeline:
        time.sleep(STEP)
"""
        for step, kind in ((0, "I/O"), (0.05, "slow consumer")):
            with running_program(program.replace("STEP", str(step))) as process:
                observed(process, lambda seen: seen.delivered >= 20)
                verdict = ask_until(lambda: why(process.pid), lambda verdict: verdict["kind"] == kind)  # noqa: B023
            # Nothing is tried again, so it is not because of retries.
            assert verdict["kind"] == kind, verdict["sentence"]
            assert re.search(r"'read' fails on \d\d % of its items, which are given up", verdict["sentence"])

    def test_one_of_several_pipelines_is_chosen(self) -> None:
        with running_program(TWO) as process:
            begun(process)
            both = json.loads(call("why", str(process.pid), "--json").stdout)
            one = ask_until(
                lambda: json.loads(call("why", str(process.pid), "--json", "--pipeline", "1").stdout),
                lambda verdict: verdict["kind"] == "slow consumer",
            )
            none = call("why", str(process.pid), "--pipeline", "7")
        assert [each["pipeline"] for each in both] == [0, 1]
        assert (one["pipeline"], one["kind"]) == (1, "slow consumer")
        assert none.returncode == 1
        assert "no pipeline 7" in none.stderr

    def test_without_a_process_those_to_choose_from_are_named(self) -> None:
        with running_script(PLANTED / "io.py") as first, running_script(PLANTED / "slow_consumer.py") as second:
            begun(first)
            begun(second)
            # Only some are named, and other tests may run many.
            for command in ("why", "stack"):
                done = run(command, pids=[first.pid, second.pid])
                assert done.returncode == 2
                assert f"{first.pid} (io.py)" in done.stderr
                assert f"{second.pid} (slow_consumer.py)" in done.stderr
