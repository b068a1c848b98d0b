"""`spdl ps`, `spdl top` and `spdl why` on programs that run, hang, and were killed."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import COMMAND, call, run, running
from tests.cli.terminal import run_on_terminal
from tests.observe.asking import ask_until
from tests.observe.pages import NOBODY, folder_of_all_pages, leave_page
from tests.observe.programs import observed, running_command, running_script
from tests.observe.programs import running as running_program

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]

PLANTED = Path(__file__).parents[2] / "observe" / "planted"

# What stands behind the number of a process where another one, of any test, has a rank.
_NO_RANK = "(?: +-)?"


def plain_lines(shown: str) -> list[str]:
    """Return the lines of what a terminal was sent, without colours and moves."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "").splitlines()


@pytest.fixture
def long_names(tmp_path: Path) -> Path:
    """Return a script whose pipeline has ten stages with long names."""
    script = tmp_path / "long_names.py"
    script.write_text(_LONG_NAMES)
    return script


_LONG_NAMES = """
import itertools, time
from spdl.pipeline import PipelineBuilder

def op(number):
    time.sleep(0.005)
    return number

builder = PipelineBuilder().add_source(itertools.count())
for number in range(10):
    builder.pipe(op, name=f"a_stage_with_a_name_that_is_longer_than_a_column_{number}", concurrency=2)
with builder.add_sink(4).build(num_threads=20).auto_stop() as pipeline:
    for _ in pipeline:
        pass
"""


def begun(process: subprocess.Popen[bytes]) -> None:
    observed(process, lambda seen: seen.delivered >= 5)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process, and return when all its threads have stopped."""
    process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


class TestPs:
    def test_each_program_has_a_line_also_one_that_was_killed(self) -> None:
        with running_script(PLANTED / "io.py") as first, running_script(PLANTED / "slow_consumer.py") as second:
            begun(first)
            begun(second)
            plain = call("ps")
            listed = {each["pid"]: each for each in json.loads(call("ps", "--json").stdout)}
            assert (plain.returncode, plain.stderr) == (0, "")
            assert re.search(rf"io\.py +{first.pid}{_NO_RANK} +0 +running", plain.stdout)
            assert listed[first.pid]["stages"] == ["fetch", "decode"]
            assert listed[second.pid]["delivered"] >= 5
            assert listed[second.pid]["state"] == "running"
            second.send_signal(signal.SIGKILL)
            second.wait()
            # Whoever learns of it here asks next what it did.
            for _ in range(2):
                assert re.search(rf"slow_consumer\.py +{second.pid} .* killed", call("ps").stdout)
            assert call("why", str(second.pid)).stdout.startswith("(It was killed.) ")

    def test_what_was_killed_stands_behind_all_that_runs(self) -> None:
        # By their names it would be the other way round.
        with running_script(PLANTED / "io.py") as first, running_script(PLANTED / "slow_consumer.py") as second:
            begun(first)
            begun(second)
            first.kill()
            first.wait()
            listed = json.loads(call("ps", "--json").stdout)
            found = [each["pid"] for each in listed if each["pid"] in (first.pid, second.pid)]
        assert found == [second.pid, first.pid]
        states = [each["state"] == "killed" for each in listed]
        assert states == sorted(states)

    def test_what_was_killed_long_ago_is_listed_for_the_last_time(self) -> None:
        nobody = NOBODY + 2
        page = folder_of_all_pages() / f"{nobody}-0.page"
        try:
            # Another test's pipeline or `spdl ps` may find it first, and remove it.
            for _ in range(20):
                leave_page(folder_of_all_pages(), nobody, written=time.perf_counter() - 700)
                if f" {nobody} " in call("ps").stdout:
                    break
            else:
                pytest.fail("it was never listed")
            assert not page.exists()
        finally:
            page.unlink(missing_ok=True)

    def test_one_that_is_stopped_is_listed_as_that(self) -> None:
        with running_script(PLANTED / "io.py") as process:
            begun(process)
            stop(process)
            assert re.search(rf"io\.py +{process.pid}{_NO_RANK} +0 +stopped", call("ps").stdout)
            verdict = why(process.pid)
            shown = call("stack", str(process.pid), "--json")
            process.send_signal(signal.SIGCONT)
        assert (verdict["kind"], verdict["stage"]) == ("hang", ""), verdict["sentence"]
        assert "has stopped the process. `kill -CONT PID`" in verdict["sentence"]
        (pipeline,) = json.loads(shown.stdout)["pipelines"]
        assert {each["does"] for each in pipeline["threads"]} == {"is stopped"}

    def test_on_a_narrow_terminal_each_part_says_which_process_a_row_is_of(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # As wide as a name that was shortened, and the longest number of a process, need at least.
        monkeypatch.setenv("COLUMNS", "48")
        with running_script(PLANTED / "io.py") as first, running_script(PLANTED / "io.py") as second:
            begun(first)
            begun(second)
            # Those of other tests may have ranks, or wider names.
            shown = run("ps", pids=[first.pid, second.pid])
        assert shown.returncode == 0
        lines = shown.stdout.splitlines()
        for process in (first, second):
            rows = [line.split() for line in lines if f" {process.pid} " in line]
            assert len(rows) > 1
            # The name, the process and the number of the pipeline.
            assert {row[2] for row in rows} == {"0"}
        assert max(map(len, lines)) <= 48

    def test_the_ranks_of_a_job_stand_together_in_their_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # As torchrun does for the second node of two.
        monkeypatch.setenv("WORLD_SIZE", "12")
        with ExitStack() as stack:
            pids = {}
            for rank in (10, 9, 11):
                monkeypatch.setenv("RANK", str(rank))
                monkeypatch.setenv("LOCAL_RANK", str(rank - 9))
                process = stack.enter_context(running_script(PLANTED / "io.py"))
                begun(process)
                pids[rank] = process.pid
            plain = call("ps").stdout
            listed = [each for each in json.loads(call("ps", "--json").stdout) if each["pid"] in pids.values()]
        assert [(each["rank"], each["pid"]) for each in listed] == [(str(rank), pids[rank]) for rank in (9, 10, 11)]
        assert [each["local_rank"] for each in listed] == ["0", "1", "2"]
        assert re.search(rf"io\.py +{pids[10]} +10 of 12 \(local 1\) +0 +running", plain)

    def test_the_pipelines_of_a_process_stand_below_its_name(self) -> None:
        with running_program(_TWO) as process:
            begun(process)
            lines = call("ps").stdout.splitlines()
        (first,) = [index for index, line in enumerate(lines) if f" {process.pid} " in line]
        assert re.search(rf"{process.pid}{_NO_RANK} +0 +running", lines[first])
        assert re.match(r" +1 +running", lines[first + 1])

    def test_programs_are_named_as_their_users_know_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "package").mkdir()
        for name in ("train.py", "my train.py", "package/train.py"):
            (tmp_path / name).write_text(_LONG_NAMES)
        monkeypatch.chdir(tmp_path)
        script = str(tmp_path / "train.py")
        expected = {
            ("-u", script, "1", "a b"): "train.py 1 'a b'",
            ("-X", "dev", "-W", "ignore", script): "train.py",
            ("-um", "package.train", "1"): "-m package.train 1",
            (str(tmp_path / "my train.py"),): "my train.py",
            (str(tmp_path / "my train.py"), "1"): "'my train.py' 1",
            ("-c", "\nc = open('train.py')\nexec(c.read())"): "-c \"c = open('train.py') exec(c.read())\"",
        }
        with ExitStack() as stack:
            started = {command: stack.enter_context(running_command(*command)) for command in expected}
            for process in started.values():
                begun(process)
            listed = {each["pid"]: each["command"] for each in json.loads(call("ps", "--json").stdout)}
            # Programs of others may have long names, which leave less room for these.
            plain = run("ps", environment={**os.environ, "COLUMNS": "400"}).stdout
            (first, *_) = started.values()
            title = call("top", str(first.pid), "--once").stdout
        assert {command: listed[process.pid] for command, process in started.items()} == expected
        for command, process in started.items():
            assert re.search(rf"^{re.escape(expected[command])} +{process.pid} ", plain, re.MULTILINE)
        assert title.startswith(f"train.py 1 'a b' (pid {first.pid})   ")


class TestTop:
    def test_results_without_a_place_are_shown_beside_the_places(self) -> None:
        # The consumer reads one result and no more. So the sink has its two places taken, and what the three slots have
        # finished waits for one. In front of them, the two places of the source's queue are taken.
        with running_program(_NEVER_READ) as process:
            observed(process, lambda seen: seen.sink_size == 2 + 3 and seen.stages[0].queued == 2)
            shown = call("top", str(process.pid), "--once").stdout
            verdict = why(process.pid)
        assert re.search(r"^op .* 2/2$", shown, re.MULTILINE)
        assert re.search(r"^sink .* 2/2 \+3$", shown, re.MULTILINE)
        assert "2 of 2 places hold finished items, and 3 more wait for one." in verdict["sentence"]

    @pytest.mark.parametrize("columns", [60, 80, 120, 200])
    def test_lines_fit_the_terminal_and_no_fact_is_broken(self, columns: int, long_names: Path) -> None:
        pytest.importorskip("rich")
        with running_script(long_names, "--some-option-that-is-quite-long", "and-its-value") as process:
            begun(process)
            shown, status = run_on_terminal(["top", str(process.pid), "--once"], columns=columns)
        assert status == 0
        lines = [line.rstrip() for line in plain_lines(shown)]
        assert max(map(len, lines)) <= columns
        titles = list(itertools.takewhile(lambda line: not line.startswith("stage "), lines))
        facts = [fact for line in titles for fact in line.split("   ")]
        for fact, pattern in zip(
            facts,
            (
                rf"long_names\.py .*\(pid {process.pid}\)",
                r"[\d.,]+ items/s",
                r"the consumer waits \d+%",
                r"[\d.]+ of \d+ cores",
                r"in flight \d+",
            ),
            strict=True,
        ):
            assert re.fullmatch(pattern, fact), titles
        # The ten stages have names that differ, and all their numbers.
        cells = defaultdict[str, list[str]](list)
        for line in lines:
            if line.startswith("a_stage"):
                name, *numbers = line.split()
                cells[name] += numbers
        assert len(cells) == 10
        for slots, in_use, computes, seconds, unit, rate, queue, *more in cells.values():
            assert slots == "2"
            assert re.fullmatch(r"\d+%", in_use)
            assert re.fullmatch(r"\d+%", computes)
            assert re.fullmatch(r"[\d.,]+", seconds)
            assert unit in ("s", "ms", "us")
            assert re.fullmatch(r"[\d.,]+", rate)
            assert re.fullmatch(r"\d/2( \+\d)?", " ".join([queue, *more]))

    def test_what_a_low_terminal_has_no_room_for_is_left_out_and_told(self, long_names: Path) -> None:
        pytest.importorskip("rich")
        told = "A taller terminal shows"
        with running_script(long_names) as process:
            begun(process)
            command = ["top", str(process.pid), "--interval", "0.1"]
            for columns, lines, expected in (
                (80, 24, ""),
                (60, 24, f"{told} more columns."),
                (60, 12, f"{told} the stages"),
            ):
                # The end of a frame is there when the next one has come.
                until = re.escape(expected) if expected else r"sink [\s\S]*sink "
                shown, _ = run_on_terminal(command, interrupt_after=until, columns=columns, lines=lines)
                frame = "\n".join(plain_lines(shown))
                assert (told in frame) == bool(expected)
                assert bool(re.search(r"^stage .* computes", frame, re.MULTILINE)) == (not expected)
                assert bool(re.search(r"^a_stage", frame, re.MULTILINE)) == (lines == 24)

    def test_once_shows_a_table_of_the_stages(self) -> None:
        with running_script(PLANTED / "io.py") as process:
            begun(process)
            shown = call("top", str(process.pid), "--once")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert f"(pid {process.pid})" in shown.stdout
        for name in ("src", "fetch", "decode", "sink"):
            assert re.search(rf"^{name} ", shown.stdout, re.MULTILINE)

    def test_a_budget_of_bytes_is_shown_beside_the_items_in_flight(self) -> None:
        with running_script(PLANTED / "memory_budget.py") as process:
            begun(process)
            shown = call("top", str(process.pid), "--once").stdout
        assert re.search(r" in flight \d+, \d+ MiB of \d+ MiB$", shown, re.MULTILINE)
        with running_script(PLANTED / "io.py") as process:
            begun(process)
            assert "MiB" not in call("top", str(process.pid), "--once").stdout

    def test_without_a_terminal_there_are_lines_until_the_end(self) -> None:
        with running_script(PLANTED / "io.py") as process:
            begun(process)
            with running("top", str(process.pid), "--interval", "0.2") as top:
                assert top.stdout is not None
                lines = [top.stdout.readline() for _ in range(3)]
                process.kill()
                assert top.wait(timeout=100) == 0
        for line in lines:
            assert re.search(r"items/s, the consumer waits \d+%  \(fetch \d+% in use, decode \d+% in use\)", line)

    def test_it_goes_on_with_the_pipeline_of_the_next_epoch(self) -> None:
        program = """
import time
from spdl.pipeline import PipelineBuilder

def op(number):
    time.sleep(0.02)
    return number

while True:
    for _ in PipelineBuilder().add_source(range(20)).pipe(op).add_sink().build(num_threads=1):
        pass
    time.sleep(0.3)
"""
        with running_program(program) as process:
            observed(process, lambda seen: seen.delivered > 0)
            with running("top", str(process.pid), "--interval", "0.1") as top:
                assert top.stdout is not None
                lines = [top.stdout.readline() for _ in range(12)]
                assert why(process.pid)["kind"]
                process.kill()
                assert top.wait(timeout=100) == 0
        assert all("items/s" in line for line in lines)

    def test_json_has_all_measures_of_each_pipeline(self) -> None:
        with running_script(PLANTED / "io.py") as process:
            begun(process)
            (each,) = json.loads(call("top", str(process.pid), "--once", "--json").stdout)
        assert [stage["name"] for stage in each["stages"]] == ["fetch", "decode"]
        assert each["verdict"]["kind"]
        assert each["delivered"] > 0

    def test_on_a_terminal_a_table_moves(self) -> None:
        pytest.importorskip("rich")
        with running_script(PLANTED / "io.py") as process:
            begun(process)
            ours, theirs = pty.openpty()
            environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
            command = [*COMMAND, "top", str(process.pid), "--interval", "0.2"]
            top = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
            os.close(theirs)
            shown = b""
            deadline = time.monotonic() + 60
            # Moving up and erasing is what a live view does to draw itself anew.
            while (shown.count(b"decode") < 3 or b"\x1b[1A" not in shown) and time.monotonic() < deadline:
                shown += os.read(ours, 10_000)
            top.send_signal(signal.SIGINT)
            assert top.wait(timeout=100) == 130
            os.close(ours)
        assert b"\x1b[1A" in shown

    def test_of_a_killed_process_it_shows_once_what_it_did(self) -> None:
        with running_script(PLANTED / "io.py") as process:
            begun(process)
            process.kill()
            process.wait()
            pid = str(process.pid)
            for options in (["--once"], []):
                shown = call("top", pid, *options)
                assert (shown.returncode, shown.stderr) == (0, "")
                assert f"(pid {pid}, killed)" in shown.stdout
                assert "fetch" in shown.stdout
            (each,) = json.loads(call("top", pid, "--json").stdout)
        assert each["state"] == "killed"
        assert each["delivered"] > 0

    def test_nothing_to_watch_is_told(self) -> None:
        shown = call("top", str(os.getpid()))
        assert shown.returncode == 1
        assert "runs no pipeline" in shown.stderr


_NEVER_READ = """
import itertools, threading
from spdl.pipeline import PipelineBuilder

pipeline = PipelineBuilder().add_source(itertools.count()).pipe(abs, name="op", concurrency=3).add_sink(2)
with pipeline.build(num_threads=3).auto_stop() as pipeline:
    pipeline.get_item()
    threading.Event().wait()
"""


_STUCK = """
import ctypes, time
from spdl.pipeline import PipelineBuilder

def parse(item):
    if item == 50:
        ctypes.PyDLL(None).sleep(1000)
    time.sleep(0.002)
    return item

pipeline = PipelineBuilder().add_source(range(10**9)).pipe(parse, name="parse").add_sink().build(num_threads=2)
with pipeline.auto_stop():
    for _ in pipeline:
        pass
"""


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


_TWO = _STUCK.replace(
    "with pipeline",
    "other = PipelineBuilder().add_source(iter(int, 1)).add_sink()\n"
    "other = other.build(num_threads=1)\nother.start()\nother.get_item()\nwith pipeline",
).replace("== 50", "< 0")


def why(pid: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call("why", str(pid), "--json").stdout)
    return found


class TestWhy:
    def test_a_process_that_is_stuck_in_c_and_holds_the_gil_is_diagnosed(self) -> None:
        with running_program(_STUCK) as process:
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
        assert (verdict["state"], verdict["kind"], verdict["stage"]) == ("killed", "I/O", "fetch"), verdict["sentence"]
        assert text.stdout.startswith("(It was killed.) ")
        assert text.returncode == 13

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
                # Nobody has looked while it hung. The page itself says for how long it was written without a change.
                observed(process, lambda seen: 0 < seen.consumer_waiting_since < seen.now - 3)
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
        with running_program(_TWO) as process:
            begun(process)
            both = json.loads(call("why", str(process.pid), "--json").stdout)
            one = json.loads(call("why", str(process.pid), "--json", "--pipeline", "1").stdout)
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
