"""Contenders' processes answer or say why not, end with their children, and have shared memory counted once."""

import contextlib
import importlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.importing import importable

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[None]:
    with importable("benchmarks"):
        yield


@pytest.fixture
def server(benchmarks: None, tmp_path: Path) -> Any:
    """Return a function that starts a process that answers each job with this program's output."""
    job_server = importlib.import_module("_job_server")

    def start(program: str) -> Any:
        (tmp_path / "program.py").write_text(f"import os, subprocess, sys, time\ninput()\n{program}\n")
        return job_server.JobServer((sys.executable,), tmp_path / "program.py")

    return start


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("sys.exit('no more')", "no more"),
        ("sys.exit(3)", "exit status 3"),
        (
            "sys.stderr.write('hm'); sys.stderr.flush(); os.abort()",
            "it was ended by signal 6; its last line was: hm",
        ),
        ("sys.stdout.write('{'); sys.stdout.flush(); sys.exit('cut short')", "cut short"),
    ],
)
def test_a_process_that_does_not_answer_says_why(server: Any, program: str, reason: str) -> None:
    started = server(program)
    with pytest.raises(Exception, match=f"^{reason}$") as raised:
        started.run({})
    assert type(raised.value).__name__ == "JobFailedError"
    started.close()


# It works for longer than it may, and so does its child, which holds the pipes of its parent.
LONG = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
with open({file!r}, "w") as file:
    file.write(str(child.pid))
time.sleep(100)
"""


def has_ended(child: Path) -> bool:
    """Return whether the process with the number in this file ends soon."""
    status = Path("/proc", child.read_text(), "status")
    for _ in range(600):
        try:
            if "State:\tZ" in status.read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_a_process_that_takes_too_long_is_ended_with_its_children(
    server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job_server = importlib.import_module("_job_server")
    # A busy machine may not have begun so soon.
    for seconds in (3, 9, 27):
        monkeypatch.setattr(job_server, "TOO_LONG", seconds)
        started = server(LONG.format(file=str(tmp_path / "child")))
        with pytest.raises(job_server.JobFailedError, match=f"it took longer than {seconds} s"):
            started.run({})
        started.close()
        if (tmp_path / "child").exists() and (tmp_path / "child").read_text():
            break
    assert has_ended(tmp_path / "child")


@pytest.mark.parametrize(
    ("program", "reason", "said"),
    [
        ("print('hm'); sys.exit('no more')", "no more", "no more\n"),
        ("print('no figures')", "it printed no figures at its end, but 'no figures'", ""),
        ("pass", "it printed no figures at its end, but ''", ""),
        (
            "sys.stderr.write('first\\nlast'); sys.stderr.flush(); os.abort()",
            "it was ended by signal 6; its last line was: last",
            "first\nlast",
        ),
    ],
)
def test_a_job_that_gives_no_figures_says_why(
    benchmarks: None, tmp_path: Path, program: str, reason: str, said: str
) -> None:
    turns = importlib.import_module("_turns")
    (tmp_path / "program.py").write_text(f"import os, sys\n{program}\n")
    with pytest.raises(turns.JobFailedError, match=f"^{reason}$") as raised:
        turns.run_job(turns.Job((sys.executable,), tmp_path / "program.py", {}))
    assert raised.value.said == said


@pytest.mark.parametrize("last", ["sys.exit('no more')", "print('{}')"])
def test_a_job_leaves_no_child_behind(benchmarks: None, tmp_path: Path, last: str) -> None:
    turns = importlib.import_module("_turns")
    endless = LONG.format(file=str(tmp_path / "child")).replace("\ntime.sleep(100)\n", f"\n{last}\n")
    (tmp_path / "program.py").write_text(endless)
    with contextlib.suppress(turns.JobFailedError):
        turns.run_job(turns.Job((sys.executable,), tmp_path / "program.py", {}))
    assert has_ended(tmp_path / "child")


def test_a_job_that_takes_too_long_is_ended_with_its_children(
    benchmarks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = importlib.import_module("_turns")
    (tmp_path / "program.py").write_text(LONG.format(file=str(tmp_path / "child")))
    for seconds in (3, 9, 27):
        monkeypatch.setattr(turns, "TOO_LONG", seconds)
        with pytest.raises(turns.JobFailedError, match=f"it took longer than {seconds} s"):
            turns.run_job(turns.Job((sys.executable,), tmp_path / "program.py", {}))
        if (tmp_path / "child").exists() and (tmp_path / "child").read_text():
            break
    assert has_ended(tmp_path / "child")


def test_memory_counts_what_children_hold_and_what_they_share_once(tmp_path: Path) -> None:
    program = f"""
import os, sys
sys.path.insert(0, {str(ROOT / "benchmarks" / "_images_work")!r})
from measure import memory_mib
before = memory_mib()
shared = b"x" * (64 << 20)
with_shared = memory_mib()
r, w = os.pipe()
done, end = os.pipe()
if not os.fork():
    own = b"y" * (32 << 20)
    os.write(w, b"!")
    os.read(done, 1)
    os._exit(0)
os.read(r, 1)
print(with_shared - before, memory_mib() - with_shared)
os.write(end, b"!")
os.wait()
"""
    shared, own = map(float, subprocess.check_output([sys.executable, "-c", program], text=True).split())
    assert shared == pytest.approx(64, abs=6)
    assert own == pytest.approx(32, abs=6)
