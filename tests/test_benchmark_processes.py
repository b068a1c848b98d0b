"""Contenders' processes answer or say why not, end with their children, and have their memory counted once."""

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

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[None]:
    with importable("benchmarks"):
        yield


@pytest.fixture
def server(benchmarks: None, tmp_path: Path) -> Any:
    """Return what starts a process that answers each job with what this program says."""
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
            "it was ended by signal 6; the last that it said: hm",
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


def test_a_process_that_takes_too_long_is_ended_with_its_children(
    server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job_server = importlib.import_module("_job_server")
    monkeypatch.setattr(job_server, "TOO_LONG", 1)
    started = server(
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\ntime.sleep(100)"
    )
    with pytest.raises(job_server.JobFailedError, match="it took longer than 1 s"):
        started.run({})
    started.close()
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError):
            if "State:\tZ" not in Path(f"/proc/{child}/status").read_text():
                time.sleep(0.05)
                continue
        return
    pytest.fail("its child lives on")


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
