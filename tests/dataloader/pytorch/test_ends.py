"""However a loop ends, its workers end, and nothing hangs."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.dataloader.pytorch.datasets import Parts, Squares

torch = pytest.importorskip("torch")

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Endless:
    """Has many items, each of which takes a while, and knows how many were begun."""

    def __init__(self, seconds: float = 0.005) -> None:
        self.seconds = seconds
        self.begun = 0
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> int:
        with self.lock:
            self.begun += 1
        time.sleep(self.seconds)
        return index


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("spdl")}


@pytest.mark.parametrize("dataset", [Endless(), Parts(10**6)])
def test_a_loop_that_is_left_frees_its_threads(dataset: Any) -> None:
    before = _threads()
    loader = PyTorchDataLoader(dataset, 100, num_workers=3, workers="thread")
    for _ in loader:
        assert _threads() - before
        break
    # The iterator is gone, and no cycle held it.
    assert not _threads() - before


def test_no_more_items_are_begun_after_a_break() -> None:
    dataset = Endless(0.01)
    loader = PyTorchDataLoader(dataset, 100, num_workers=2, prefetch_factor=50, workers="thread")
    for _ in loader:
        break
    # A hundred batches were asked for, of which each takes a second.
    begun = dataset.begun
    assert begun < 9900
    time.sleep(0.05)
    assert dataset.begun == begun


def test_no_further_ahead_than_torch() -> None:
    drawn = []

    def sampler() -> Iterator[int]:
        for index in range(100):
            drawn.append(index)
            yield index

    iterator = iter(
        PyTorchDataLoader(Endless(0), None, sampler=sampler(), num_workers=2, prefetch_factor=3, workers="thread")
    )
    assert len(drawn) == 6
    for received in range(5):
        next(iterator)
        assert len(drawn) == 7 + received


def test_an_iterator_in_a_cycle_is_collected() -> None:
    before = _threads()
    iterator = iter(PyTorchDataLoader(Endless(), 10, num_workers=2, workers="thread"))
    next(iterator)
    cycle: list[Any] = [iterator]
    cycle.append(cycle)
    del iterator, cycle
    gc.collect()
    assert not _threads() - before


def test_the_end_can_be_asked_for_again() -> None:
    iterator = iter(PyTorchDataLoader(Squares(), 4, num_workers=2))
    assert len(list(iterator)) == 6
    assert not list(iterator)


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_a_timeout_is_torchs(workers: Any) -> None:
    loader = PyTorchDataLoader(Endless(1.0), 1, num_workers=1, workers=workers, timeout=0.2)
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.2 seconds"):
        next(iterator)
    while workers == "thread":
        try:
            # Nothing is lost.
            assert next(iterator).tolist() == [0]
            break
        except RuntimeError as error:
            assert "timed out" in str(error)  # noqa: PT017 - it may go well, too.


def _run(tmp_path: Path, program: str, **options: Any) -> subprocess.Popen[str]:
    file = tmp_path / "program.py"
    file.write_text(dedent(program))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, str(file)], text=True, stdout=-1, stderr=-1, env=environment, **options)


PROGRAM = """
    import sys, time
    from spdl.dataloader import PyTorchDataLoader

    class Slow:
        def __len__(self): return 10**6  # Whoever sends a signal may be late.
        def __getitem__(self, index):
            time.sleep(0.02)
            return index

    # Batches without tensors: if a worker dies while it sends one of those, PyTorch may raise a ConnectionResetError.
    iterator = iter(PyTorchDataLoader(Slow(), 4, collate_fn=list, num_workers=2, workers="{workers}"))
    next(iterator)
    print("running", flush=True)
    {rest}
"""


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_ctrl_c_ends_a_program_that_waits(tmp_path: Path, workers: str) -> None:
    with _run(tmp_path, PROGRAM.format(workers=workers, rest="list(iterator)")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in complaints
    assert process.returncode in (1, -signal.SIGINT)


def test_a_program_may_end_in_the_middle(tmp_path: Path) -> None:
    with _run(tmp_path, PROGRAM.format(workers="thread", rest="sys.exit(3)")) as process:
        output = process.communicate(timeout=60)
    assert process.returncode == 3
    assert output == ("running\n", "")


KILLED = """
    try:
        while True:
            next(iterator)
    except RuntimeError as error:
        print(error)
"""


def test_a_killed_worker_is_an_error(tmp_path: Path) -> None:
    # In a process of its own: PyTorch raises the error wherever the main thread is when it hears of it. That may be in
    # front of the loop, which catches nothing there.
    rest = dedent(KILLED).strip().replace("\n", "\n    ")
    with _run(tmp_path, PROGRAM.format(workers="process", rest=rest)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        psutil.Process(process.pid).children()[-1].send_signal(signal.SIGKILL)
        said, traceback = process.communicate(timeout=60)
    assert re.search(r"DataLoader worker \(pid\(?s?\)? .*(killed by signal|exited unexpectedly)", said + traceback)


def test_workers_die_with_their_parent(tmp_path: Path) -> None:
    with _run(tmp_path, PROGRAM.format(workers="process", rest="list(iterator)")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        children = psutil.Process(process.pid).children()
        assert len(children) >= 2
        process.kill()
        process.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
