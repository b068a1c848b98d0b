"""`spdl stack` reads stacks of other processes: by py-spy, and by a signal that the process has prepared."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from tests.observe.pages import folder_of_all_pages
from tests.observe.programs import observed, running

from spdl.cli import main
from spdl.observe import find_pipelines

if TYPE_CHECKING:
    from pathlib import Path

    from spdl.observe import Observation

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"), pytest.mark.timeout(240)]

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


class Ask(Protocol):
    def __call__(self, pid: int, *options: str, py_spy: bool = False) -> str: ...


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return a function that returns what `spdl stack` says of a process, where py-spy is or is not installed."""

    def said(pid: int, *options: str, py_spy: bool = False) -> str:
        with monkeypatch.context() as patch:
            if not py_spy:
                patch.setenv("PATH", "")
                patch.setattr(sys, "executable", "/nowhere/python")
            assert main(["stack", str(pid), *options]) in (0, 3)
        return capsys.readouterr().out

    return said


def frames_of_op(shown: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the frames of the thread that is in the op; none if what the process has written lacks them."""
    threads = [*shown["pipelines"][0]["threads"], *shown["others"]]
    return next(
        (each["frames"] for each in threads if any(frame["function"] == "inner" for frame in each["frames"] or [])), []
    )


def whole(ask: Ask, pid: int, *, py_spy: bool = False) -> dict[str, Any]:
    """Return what is said of a process in JSON. On a busy machine it may write its stacks in parts, with pauses."""
    deadline = time.monotonic() + 60
    while not frames_of_op(shown := json.loads(ask(pid, "--json", py_spy=py_spy))):
        if py_spy and shown["stacks_by"] != "py-spy":
            pytest.skip("py-spy is not here, or may not read other processes")
        assert time.monotonic() < deadline, shown
    found: dict[str, Any] = shown
    return found


@pytest.mark.parametrize("sleeps", [SLEEPS, HOLDS_THE_GIL])
@pytest.mark.parametrize("by", ["py-spy", "signal"])
def test_the_stack_of_an_op_that_hangs(by: str, sleeps: str, ask: Ask) -> None:
    text = PROGRAM.format(enable=ENABLE, stuck=sleeps)
    with running(text) as process:
        stuck(process)
        shown = whole(ask, process.pid, py_spy=by == "py-spy")
    assert shown["stacks_by"] == by
    frames = frames_of_op(shown)
    assert [frame["function"].split(".")[-1] for frame in frames][:2] == ["inner", "parse"]
    assert frames[0]["line"] == 1 + next(n for n, line in enumerate(text.splitlines()) if "sleep(1000)" in line)


def test_the_frames_of_the_engine_are_left_out_around_the_op_only(ask: Ask) -> None:
    # The op waits within another pipeline, whose frames are the user's business.
    nested = (
        "PipelineBuilder().add_source(iter(lambda: time.sleep(1000), 0)).add_sink().build(num_threads=1).get_item()"
    )
    with running(PROGRAM.format(enable=ENABLE, stuck=nested)) as process:
        stuck(process)
        frames = frames_of_op(whole(ask, process.pid))
        printed = ask(process.pid)
    names = [frame["function"] for frame in frames]
    inner = names.index("inner")
    assert "get_item" in names[:inner]
    # In JSON are all, also those of the thread that runs the op.
    assert len(names) > inner + 2
    op = re.search(r"^  parse: item 12, .*\n((?:      .*\n)+)", printed, re.MULTILINE)
    assert op is not None, printed
    assert [line.split()[0] for line in op[1].splitlines()] == names[: inner + 2]


def test_it_is_asked_again_and_again_and_the_file_does_not_grow(ask: Ask) -> None:
    with running(PROGRAM.format(enable=ENABLE, stuck=SLEEPS)) as process:
        stuck(process)
        path = folder_of_all_pages() / f"{process.pid}.stacks"
        size, deadline = path.stat().st_size, time.monotonic() + 60
        for _ in range(3):
            assert len(json.loads(ask(process.pid, "--json"))["pipelines"]) == 1
            # What a process writes late is removed at the next question.
            while path.stat().st_size != size:
                assert time.monotonic() < deadline
                ask(process.pid)
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
    assert not (folder_of_all_pages() / f"{done.stdout.strip()}.stacks").exists()


def test_a_forked_process_has_its_own() -> None:
    program = (
        f"import os, sys\nfrom pathlib import Path\n{ENABLE}\n"
        "folder = Path(sys.argv[1])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    assert enable_stacks()\n"
        "    assert (folder / f'{os.getpid()}.stacks').exists()\n"
        "    raise SystemExit\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print((folder / f'{os.getpid()}.stacks').exists(), (folder / f'{child}.stacks').exists())"
    )
    command = [sys.executable, "-c", program, str(folder_of_all_pages())]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "True False\n"


def test_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    monkeypatch.setenv("SPDL_STACKS", "1")
    with running(PROGRAM.format(enable="", stuck=SLEEPS)) as process:
        stuck(process)
        assert whole(ask, process.pid)["stacks_by"] == "signal"


def test_a_process_that_is_stopped_does_not_answer(ask: Ask) -> None:
    with running(PROGRAM.format(enable=ENABLE, stuck=SLEEPS)) as process:
        stuck(process)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert "is it stopped" in json.loads(ask(process.pid, "--json"))["missing"]
        process.send_signal(signal.SIGCONT)


def test_a_process_without_a_handler_is_not_killed_by_a_signal(ask: Ask) -> None:
    with running(PROGRAM.format(enable="", stuck=SLEEPS)) as process:
        stuck(process)
        (head,) = {page.head.started_ticks: page.head for page in find_pipelines(process.pid)}.values()
        path = folder_of_all_pages() / f"{process.pid}.stacks"
        about = {
            "signal": signal.SIGRTMAX - 1,
            "started_ticks": head.started_ticks,
            "pid_namespace": head.pid_namespace,
        }
        told = "the process that prepared it is another one"
        damaged = "the file in which the process writes its stacks is damaged"
        try:
            # Nothing is prepared.
            missing = json.loads(ask(process.pid, "--json"))["missing"]
            assert re.search(r"pip install py-spy.*enable_stacks\(\).*SPDL_STACKS=1", missing)
            for text, why in [
                (json.dumps(about) + "\n", told),
                (json.dumps({**about, "started_ticks": 1}) + "\n", told),
                *((text, damaged) for text in ("", "{}", "[]\n", "{}\n", '{"signal": "x"}\n', "\0" * 5000)),
            ]:
                path.write_text(text)
                shown = ask(process.pid)
                assert why in shown, (text, shown)
                # What the page says is shown all the same.
                assert "  parse: item 12" in shown
                assert process.poll() is None
        finally:
            path.unlink(missing_ok=True)


def test_where_there_is_no_place_nothing_is_enabled(tmp_path: Path) -> None:
    program = """
import os, sys
real = os.access
os.access = lambda path, mode: path != "/dev/shm" and real(path, mode)
from spdl.observe import enable_stacks
print(enable_stacks())
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path / "missing")}
    environment.pop("XDG_RUNTIME_DIR", None)
    for folder, enabled in ((tmp_path / "missing", False), (tmp_path, True)):
        environment["TMPDIR"] = str(folder)
        done = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment
        )
        assert done.stdout == f"{enabled}\n"
