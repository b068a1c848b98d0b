"""What comes out of a region whose processes die, and whose items are run again: everything, once, in its order."""

from __future__ import annotations

import os
import signal
import time
from itertools import islice
from typing import TYPE_CHECKING, Literal

import pytest

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
        .add_source(range(30))
        .to(ProcessPoolExecutorConfig(2, BeginsLate(tmp_path), on_death="rerun"))
        .pipe(DiesAmongOthers(tmp_path), output_order=output_order)
        .to(MAIN_PROCESS)
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        try:
            came = [pipeline.get_item(timeout=20) for _ in range(30)]
        finally:
            (tmp_path / "go on").touch()
        assert list(pipeline.get_iterator(timeout=60)) == []
    assert (came if output_order == "input" else sorted(came)) == list(range(30))


@pytest.mark.parametrize("continuous", [False, True])
def test_no_item_of_others_is_lost_if_a_process_dies_at_the_end(tmp_path: Path, continuous: bool) -> None:  # noqa: FBT001
    # All have been told of the end when one dies, and its item is sent again: two ends are under way.
    pipeline = (
        PipelineBuilder[int, int]()
        .add_source(TwoItems(tmp_path), continuous=continuous)
        .to(ProcessPoolExecutorConfig(2, on_death="rerun"), buffer_size=1)
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
