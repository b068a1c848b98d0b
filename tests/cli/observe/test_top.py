"""`spdl top` shows what pipelines do, on terminals of any size and without one."""

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
from typing import TYPE_CHECKING

import pytest
from tests.cli.observe.watched import LONG_NAMES, PLANTED, begun, why
from tests.cli.running import COMMAND, call, running
from tests.cli.terminal import run_on_terminal
from tests.observe.programs import observed, running_script
from tests.observe.programs import running as running_program

if TYPE_CHECKING:
    from pathlib import Path


# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]


def plain_lines(shown: str) -> list[str]:
    """Return the lines of what a terminal was sent, without colours and moves."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "").splitlines()


@pytest.fixture
def long_names(tmp_path: Path) -> Path:
    """Return a script whose pipeline has ten stages with long names."""
    script = tmp_path / "long_names.py"
    script.write_text(LONG_NAMES)
    return script


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
