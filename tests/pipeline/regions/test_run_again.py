"""What comes out of a region whose processes die, and whose items are run again: everything, once, in its order."""

from __future__ import annotations

import logging
import os
import signal
import time
from itertools import islice
from typing import TYPE_CHECKING, Literal

import psutil
import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

# How long the pipeline may need to take notice of something before the next thing happens. No more than that depends on
# it whether a test finds a fault.
NOTICE_SECONDS = 0.3


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not happen"
        time.sleep(0.01)


class TwoItems:
    """Items 0 and 1. It tells when it is over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[int]:
        yield from range(2)
        (self.folder / "over").touch()


class BeginsWhenOver:
    """An initializer that takes until the source is over: until then each process may get an item, and then both do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> None:
        wait_for(self.folder / "over")


class DiesLate:
    """Item 1 kills its process when the source is over. Item 0 takes until item 1 is done, and longer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, item: int) -> int:
        if item == 0:
            wait_for(self.folder / "run again")
            time.sleep(NOTICE_SECONDS)
        elif not (self.folder / "died").exists():
            wait_for(self.folder / "over")
            time.sleep(NOTICE_SECONDS)
            (self.folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            (self.folder / "run again").touch()
        return item


class KillsTwice:
    """Item 0 kills its process twice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, item: int) -> int:
        if item == 0:
            for number in range(2):
                if not (died := self.folder / str(number)).exists():
                    died.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        return item


class BeginsLate:
    """An initializer. One that runs after a death takes until it is told to go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> None:
        if (self.folder / "died").exists():
            wait_for(self.folder / "go on")


class DiesAmongOthers:
    """Item 3 kills its process when the other one works. The items take so long that each process has a few."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, item: int) -> int:
        (self.folder / f"works {os.getpid()}").touch()
        time.sleep(0.01)
        if item == 3 and not (self.folder / "died").exists():
            deadline = time.monotonic() + 60
            while len(list(self.folder.glob("works *"))) < 2:
                assert time.monotonic() < deadline, "the other process gets no items"
                time.sleep(0.01)
            (self.folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return item


class OpenItems:
    """So many items from 0 on. It is over when it is told to: processes that know of the end get no more items."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.count = count

    def __iter__(self) -> Iterator[int]:
        yield from range(self.count)
        wait_for(self.folder / "go on")


class TakesARole:
    """An initializer. The first process begins at once, the second when it is told to, and others when all is over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> None:
        for role, sign in (("dies", None), ("lives", "the region's thread is held"), ("late", "go on")):
            if not (taken := self.folder / role).exists():
                taken.write_text(str(os.getpid()))
                if sign is not None:
                    wait_for(self.folder / sign)
                return


class FailsAndDies:
    """The first process fails on its first item. When the second one works, it dies of the next item."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, item: int) -> int:
        if (self.folder / "dies").read_text() != str(os.getpid()):
            (self.folder / "works").touch()
        elif not (failed := self.folder / "failed").exists():
            failed.write_text(str(item))
            raise ValueError("It fails.")
        else:
            wait_for(self.folder / "works")
            os.kill(os.getpid(), signal.SIGKILL)
        return item


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class HoldsThread(logging.Handler):
    """Keeps the thread that listens to the workers, which logs what fails there, until the first process is dead."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        if "It fails." in record.getMessage():
            (self.folder / "the region's thread is held").touch()
            dying = int((self.folder / "dies").read_text())
            assert wait_until(lambda: not is_running(dying), 60)


class DiesBeforeItBegins:
    """An initializer that kills its process the first few times, as the system does while memory is short."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder = folder
        self.times = times

    def __call__(self) -> None:
        for number in range(self.times):
            if not (died := self.folder / str(number)).exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)


def test_no_item_is_to_blame_for_a_process_that_dies_before_it_begins(tmp_path: Path) -> None:
    workers = ProcessPoolExecutorConfig(1, DiesBeforeItBegins(tmp_path, 5), on_death="rerun")
    builder = PipelineBuilder[int, int]().add_source(range(6)).to(workers).pipe(ops.same).to(MAIN_PROCESS)
    with builder.add_sink().build(num_threads=1).auto_stop() as pipeline:
        assert sorted(pipeline.get_iterator(timeout=60)) == list(range(6))
        assert pipeline.failures() == []


@pytest.mark.parametrize("output_order", ["completion", "input"])
def test_items_are_run_again_by_others_while_the_new_process_begins(
    tmp_path: Path, output_order: Literal["completion", "input"]
) -> None:
    pipeline = (
        PipelineBuilder[int, int]()
        .add_source(OpenItems(tmp_path, 30))
        .to(ProcessPoolExecutorConfig(2, BeginsLate(tmp_path), on_death="rerun"))
        .pipe(DiesAmongOthers(tmp_path), output_order=output_order)
        .to(MAIN_PROCESS)
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        try:
            came = [pipeline.get_item(timeout=60) for _ in range(30)]
        finally:
            (tmp_path / "go on").touch()
        assert list(pipeline.get_iterator(timeout=60)) == []
    assert (came if output_order == "input" else sorted(came)) == list(range(30))


@pytest.mark.parametrize("output_order", ["completion", "input"])
def test_what_another_process_has_told_counts_before_a_death(
    tmp_path: Path, output_order: Literal["completion", "input"]
) -> None:
    # That it has begun, here: so it gets the items again, and not the new process, which begins late.
    held = HoldsThread(tmp_path)
    logging.getLogger("spdl").addHandler(held)
    pipeline = (
        PipelineBuilder[int, int]()
        .add_source(OpenItems(tmp_path, 8))
        .to(ProcessPoolExecutorConfig(2, TakesARole(tmp_path), on_death="rerun"))
        .pipe(FailsAndDies(tmp_path), output_order=output_order)
        .to(MAIN_PROCESS)
        .add_sink()
        .build(num_threads=1)
    )
    try:
        with pipeline.auto_stop():
            try:
                came = [pipeline.get_item(timeout=60) for _ in range(7)]
            finally:
                (tmp_path / "go on").touch()
            assert list(pipeline.get_iterator(timeout=60)) == []
    finally:
        logging.getLogger("spdl").removeHandler(held)
    assert sorted([*came, int((tmp_path / "failed").read_text())]) == list(range(8))


@pytest.mark.parametrize("continuous", [False, True])
def test_no_item_of_others_is_lost_if_a_process_dies_at_the_end(tmp_path: Path, continuous: bool) -> None:  # noqa: FBT001
    # All have been told of the end when one dies, and its item is sent again: two ends are under way.
    pipeline = (
        PipelineBuilder[int, int]()
        .add_source(TwoItems(tmp_path), continuous=continuous)
        .to(ProcessPoolExecutorConfig(2, BeginsWhenOver(tmp_path), on_death="rerun"), buffer_size=1)
        .pipe(DiesLate(tmp_path))
        .to(MAIN_PROCESS)
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        epochs = [sorted(pipeline.get_iterator(timeout=60)) for _ in range(3 if continuous else 1)]
    assert epochs == [[0, 1]] * len(epochs)
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize("output_order", ["completion", "input"])
def test_a_single_process_keeps_the_order_though_one_item_kills_it(
    tmp_path: Path, output_order: Literal["completion", "input"]
) -> None:
    pipeline = (
        PipelineBuilder[int, int]()
        .add_source(range(6))
        .to(ProcessPoolExecutorConfig(1, on_death="rerun"))
        .pipe(KillsTwice(tmp_path), output_order=output_order)
        .to(MAIN_PROCESS)
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=60)) == list(range(6))


def test_a_state_is_exact_though_an_item_kills_its_process(tmp_path: Path) -> None:
    def build(folder: Path) -> PipelineBuilder[int, int]:
        folder.mkdir()
        return (
            PipelineBuilder[int, int]()
            .add_source(range(6))
            .to(ProcessPoolExecutorConfig(1, on_death="rerun"))
            .pipe(KillsTwice(folder), output_order="input")
            .to(MAIN_PROCESS)
            .add_sink()
        )

    with build(tmp_path / "cut").build(num_threads=1).auto_stop() as pipeline:
        assert list(islice(pipeline.get_iterator(timeout=60), 2)) == [0, 1]
        state = pipeline.state_dict()
    resumed = build(tmp_path / "resumed").build(num_threads=1)
    resumed.load_state_dict(state)
    with resumed.auto_stop():
        assert list(resumed.get_iterator(timeout=60)) == [2, 3, 4, 5]
