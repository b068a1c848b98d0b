"""`spdl ps` lists programs that run, are stopped, and were killed."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.cli.observe.watched import LONG_NAMES, PLANTED, TWO, begun, why
from tests.cli.running import call, run
from tests.observe.pages import NOBODY, folder_of_all_pages, leave_page
from tests.observe.programs import running as running_program
from tests.observe.programs import running_command, running_script

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]


# What stands behind the number of a process where another one, of any test, has a rank.
_NO_RANK = "(?: +-)?"


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
        with running_program(TWO) as process:
            begun(process)
            lines = call("ps").stdout.splitlines()
        (first,) = [index for index, line in enumerate(lines) if f" {process.pid} " in line]
        assert re.search(rf"{process.pid}{_NO_RANK} +0 +running", lines[first])
        assert re.match(r" +1 +running", lines[first + 1])

    def test_programs_are_named_as_their_users_know_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "package").mkdir()
        for name in ("train.py", "my train.py", "package/train.py"):
            (tmp_path / name).write_text(LONG_NAMES)
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
