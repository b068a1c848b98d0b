"""What killed processes have left is removed when another pipeline starts, and nothing else is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.observe.programs import observed, running

from spdl.observe import find_pipelines
from spdl.pipeline._report.page_file import PageFile, make_page_file, page_folder, pid_namespace, started_ticks, sweep
from spdl.pipeline._report.sample import PIPELINE_VALUES, SOURCE_VALUES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory")

# No process has a greater number, so none has this one. In the folder of all pages, each test has another one.
NOBODY = 4_194_305
VALUES = len(PIPELINE_VALUES) + len(SOURCE_VALUES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir(0o700)
    return folder


def make(folder: Path, pid: int = NOBODY, *, written: float = 1.0, **about: Any) -> PageFile:
    """Make the page of a process, which has written its counters at some time.

    It is made elsewhere: pipelines of other tests would remove it from the folder of all pages before it is complete.
    """
    head = {
        "pid": pid,
        "started_ticks": 1,
        "pid_namespace": pid_namespace(),
        "pipeline": 0,
        "command": ["train.py"],
        "ranks": {},
        "cores": 2.0,
        "gil": True,
        "sources": ["src"],
        "stages": [],
        **about,
    }
    folder.mkdir(0o700, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as elsewhere:
        file = make_page_file(f"{pid}-0", head, rows=2, folder=Path(elsewhere))
        assert file is not None
        if written:
            file.write([written] * VALUES)
        Path(elsewhere, f"{pid}-0.page").rename(folder / f"{pid}-0.page")
    return file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_page_of_a_killed_process_goes(folder: Path) -> None:
    make(folder)
    assert sweep(folder) == 1
    assert names(folder) == []


def test_one_that_never_wrote_goes_too(folder: Path) -> None:
    make(folder, written=0.0)
    assert sweep(folder) == 1


def test_that_of_a_process_whose_number_was_given_again_goes(folder: Path) -> None:
    make(folder, os.getpid())
    assert sweep(folder) == 1


def test_what_runs_stays(folder: Path) -> None:
    make(folder, os.getpid(), started_ticks=started_ticks(os.getpid()))
    assert sweep(folder) == 0
    assert names(folder) == [f"{os.getpid()}-0.page"]


def test_what_was_killed_a_moment_ago_can_still_be_looked_at(folder: Path) -> None:
    make(folder, written=time.perf_counter() - 60)
    assert sweep(folder) == 0
    assert len(find_pipelines(folder=folder)) == 1


def test_a_process_of_another_container_is_known_by_its_lock(folder: Path) -> None:
    file = make(folder, pid_namespace=1)
    assert sweep(folder) == 0
    (page,) = find_pipelines(folder=folder)
    assert page.state() == "running"
    # The lock lasts as long as the mapping.
    del file
    assert page.state() == "killed"
    assert sweep(folder) == 1


def test_what_is_something_else_stays(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "1-0.page").write_bytes(b"no page")
    (folder / "2-0.page").write_bytes(os.urandom(4000))
    (folder / "3.stacks").write_bytes(b"[]\n")
    (folder / "4.stacks").write_bytes(b"")
    (folder / "5-0.page").symlink_to(folder / "notes.txt")
    (folder / "6-0.page").mkdir()
    assert sweep(folder) == 0
    assert len(names(folder)) == 7


def test_a_page_that_was_not_complete_goes(folder: Path) -> None:
    (folder / f"{NOBODY}-0.new").write_bytes(b"")
    (folder / f"{os.getpid()}-0.new").write_bytes(b"")
    assert sweep(folder) == 1
    assert names(folder) == [f"{os.getpid()}-0.new"]


def test_a_folder_of_others_is_left_alone(folder: Path) -> None:
    make(folder)
    folder.chmod(0o755)
    assert sweep(folder) == 0
    assert sweep(folder / "missing") == 0


_ENDLESS = """
from spdl.pipeline import PipelineBuilder
with PipelineBuilder().add_source(iter(int, 1)).add_sink().build(num_threads=1).auto_stop() as pipeline:
    for _ in pipeline:
        pass
"""


_ELSEWHERE = """
from importlib import import_module
import_module("spdl.pipeline._report.page_file")._MEMORY = {memory!r}
"""


def test_a_pipeline_that_starts_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In a folder of its own: the user's one is swept by all pipelines that start meanwhile.
    memory = str(tmp_path)
    monkeypatch.setattr("spdl.pipeline._report.page_file._MEMORY", memory)
    program = _ELSEWHERE.format(memory=memory) + _ENDLESS
    path = page_folder() / f"{NOBODY}-0.page"
    assert path.is_relative_to(tmp_path)
    with running(program) as process:
        # The folder is there now.
        observed(process, lambda seen: seen.delivered > 0)
        make(page_folder())
        assert path.exists()
    with running(program) as process:
        observed(process, lambda seen: seen.delivered > 0)
        assert not path.exists()


def test_a_real_container_is_left_alone_while_it_runs() -> None:
    unshare = shutil.which("unshare")
    command = [unshare or "", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if unshare is None or subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("makes no namespaces here")
    before = set(page_folder().glob("*.page")) if page_folder().exists() else set()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen([*command, sys.executable, "-c", _ENDLESS], env=environment)
    try:
        deadline = time.monotonic() + 30
        while not (inside := [each for each in find_pipelines() if each.path not in before and _is_inside(each)]):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        (page,) = inside
        assert page.state() == "running"
        sweep()
        assert page.path.exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
        while page.state() == "running":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert page.state() == "killed"
        page.remove()
    finally:
        process.kill()
        process.wait()


def _is_inside(page: Any) -> bool:
    # Another test makes a page of another container, too.
    return bool(page.head.pid_namespace != pid_namespace() and page.head.pid < NOBODY)


def test_a_pipe_in_the_folder_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "7-0.page")
    assert sweep(folder) == 0
    assert find_pipelines(folder=folder) == []
