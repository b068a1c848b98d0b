"""Stacks of other processes: by py-spy, and by a signal that the process has prepared."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.delays import tolerates_delays
from tests.observe.programs import observed, running

from spdl.observe import enable_stacks
from spdl.observe._stack.fault_handler import by_signal
from spdl.observe._stack.py_spy import by_py_spy
from spdl.observe._stack.read_stacks import read_stacks
from spdl.observe._stack.thread_stack import Frame, NoStacksError, ThreadStack, without_engine
from spdl.pipeline._metrics.page_folder import page_folder
from spdl.pipeline._metrics.process_identity import pid_namespace, started_ticks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spdl.observe import Observation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

PROGRAM = """
import threading, time
from spdl.pipeline import PipelineBuilder
{enable}

def inner(item):
    {stuck}

def parse(item):
    if item == 12:
        inner(item)
    return item

pipeline = PipelineBuilder().add_source(range(10**9)).pipe(parse, name="parse").add_sink(99).build(num_threads=2)
with pipeline.auto_stop():
    for _ in pipeline:
        pass
"""
ENABLE = "from spdl.observe import enable_stacks\nassert enable_stacks()"
SLEEPS = "time.sleep(1000)"
HOLDS_THE_GIL = "__import__('ctypes').PyDLL(None).sleep(1000)"


def stuck(process: subprocess.Popen[bytes]) -> None:
    def in_it(seen: Observation) -> bool:
        return any(it.position == 12 and time.perf_counter() - it.since > 0.2 for it in seen.threads)

    observed(process, in_it)


def in_parse(read: Callable[[int], list[ThreadStack]], pid: int) -> ThreadStack:
    """Return the stack of the thread that is in the op. A busy machine may let a process answer in several parts."""
    deadline = time.monotonic() + 20
    while True:
        found = [each for each in read(pid) if any(frame.function == "inner" for frame in each.frames)]
        if len(found) == 1:
            return found[0]
        assert time.monotonic() < deadline, found


def needs_py_spy(pid: int) -> None:
    try:
        by_py_spy(pid)
    except NoStacksError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("sleeps", [SLEEPS, HOLDS_THE_GIL])
@pytest.mark.parametrize("read", [by_py_spy, by_signal])
def test_the_stack_of_an_op_that_hangs(read: Callable[[int], list[ThreadStack]], sleeps: str) -> None:
    with running(PROGRAM.format(enable=ENABLE, stuck=sleeps)) as process:
        stuck(process)
        if read is by_py_spy:
            needs_py_spy(process.pid)
        stack = in_parse(read, process.pid)
    functions = [frame.function.split(".")[-1] for frame in without_engine(stack.frames)]
    assert functions == ["inner", "parse"]
    lines = PROGRAM.format(enable=ENABLE, stuck=sleeps).splitlines()
    assert stack.frames[0].line == 1 + next(n for n, line in enumerate(lines) if "sleep(1000)" in line)


@tolerates_delays
def test_it_is_asked_again_and_again_and_the_file_does_not_grow() -> None:
    with running(PROGRAM.format(enable=ENABLE, stuck=SLEEPS)) as process:
        stuck(process)
        path = page_folder() / f"{process.pid}.stacks"
        size = path.stat().st_size
        for _ in range(5):
            stacks = by_signal(process.pid)
            assert len(stacks) == 3
            assert path.stat().st_size == size
        assert process.poll() is None
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_signal_of_the_program_keeps_its_meaning() -> None:
    program = (
        "import signal\n"
        "signal.signal(signal.SIGRTMAX - 1, lambda *_: print('mine', flush=True))\n"
        f"{ENABLE}\n"
        "signal.raise_signal(signal.SIGRTMAX - 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "mine\n"


def test_the_file_goes_with_the_program() -> None:
    program = f"import os\n{ENABLE}\nassert enable_stacks()\nprint(os.getpid())"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert not (page_folder() / f"{done.stdout.strip()}.stacks").exists()


def test_a_forked_process_has_its_own() -> None:
    program = (
        f"import os\n{ENABLE}\n"
        "from spdl.pipeline._metrics.page_folder import page_folder\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    assert enable_stacks()\n"
        "    assert (page_folder() / f'{os.getpid()}.stacks').exists()\n"
        "    raise SystemExit\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print((page_folder() / f'{os.getpid()}.stacks').exists(), (page_folder() / f'{child}.stacks').exists())"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "True False\n"


def test_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDL_STACKS", "1")
    with running(PROGRAM.format(enable="", stuck=SLEEPS)) as process:
        stuck(process)
        assert in_parse(by_signal, process.pid).frames


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(NoStacksError, match=r"pip install py-spy.*enable_stacks\(\).*SPDL_STACKS=1"):
        read_stacks(os.getpid())


def test_a_process_that_is_stopped_does_not_answer() -> None:
    with running(PROGRAM.format(enable=ENABLE, stuck=SLEEPS)) as process:
        stuck(process)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(NoStacksError, match="is it stopped"):
            by_signal(process.pid)
        process.send_signal(signal.SIGCONT)


class TestNobodyIsKilled:
    """A signal without a handler would end the process."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        tmp_path.chmod(0o700)
        return tmp_path

    def test_a_process_without_a_handler_gets_no_signal(self, folder: Path) -> None:
        program = "import time; print(flush=True); time.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as it:
            assert it.stdout is not None
            it.stdout.readline()
            about = {
                "signal": signal.SIGRTMAX - 1,
                "started_ticks": started_ticks(it.pid),
                "pid_namespace": pid_namespace(),
            }
            (folder / f"{it.pid}.stacks").write_text(json.dumps(about) + "\n")
            with pytest.raises(NoStacksError, match="another one"):
                by_signal(it.pid, folder)
            (folder / f"{it.pid}.stacks").write_text(json.dumps({**about, "started_ticks": 1}) + "\n")
            with pytest.raises(NoStacksError, match="another one"):
                by_signal(it.pid, folder)
            assert it.poll() is None
            it.kill()

    @pytest.mark.parametrize("text", ["", "{}", "[]\n", "{}\n", '{"signal": "x"}\n', "\0" * 5000])
    def test_damage_is_told(self, folder: Path, text: str) -> None:
        (folder / "1.stacks").write_text(text)
        with pytest.raises(NoStacksError, match="damaged"):
            by_signal(1, folder)


def test_the_frames_of_the_engine_are_left_out_around_the_op_only() -> None:
    wait = Frame("get_item", "/lib/spdl/pipeline/_pipeline/pipeline.py", 3)
    op = Frame("op", "train.py", 9)
    carry = Frame("carry", "/lib/spdl/pipeline/_engine/worker.py", 150)
    run = Frame("run", "/lib/python/threading.py", 1)
    assert without_engine((wait, op, carry, run)) == (wait, op)
    assert without_engine((carry, run)) == ()


def test_where_there_is_no_place_nothing_is_enabled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("spdl.pipeline._metrics.stacks_file.page_folder", lambda: tmp_path / "missing" / "pages")
    monkeypatch.setattr("spdl.pipeline._metrics.stacks_file._ENABLED", set[int]())
    assert not enable_stacks()
