"""Items of workers that die while the input ends: they are run again, or told of, however long that takes."""

from __future__ import annotations

import logging
import os
import signal
import time
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

# How long the pipeline may take to notice the end of its input. Only whether a test finds a fault depends on it.
NOTICE_SECONDS = 1.0


class Listener(logging.Handler):
    """Runs a function with each line that the pipelines log."""

    def __init__(self, listen: Callable[[str], None]) -> None:
        super().__init__()
        self.listen = listen

    def emit(self, record: logging.LogRecord) -> None:
        self.listen(record.getMessage())


@pytest.fixture
def log() -> Iterator[Callable[[Callable[[str], None]], None]]:
    logger = logging.getLogger("spdl.pipeline")
    handlers: list[logging.Handler] = []

    def listen(function: Callable[[str], None]) -> None:
        handlers.append(Listener(function))
        logger.addHandler(handlers[-1])

    yield listen
    for handler in handlers:
        logger.removeHandler(handler)


class KillsBesideAnother:
    """Item 0 kills its process: the third time not before item 1 has begun, which ends only if it is run again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, item: int) -> int:
        begun = self.folder / "begun"
        if item:
            if not begun.exists():
                begun.touch()
                time.sleep(60)
            return item
        kills = len(list(self.folder.glob("kill*")))
        if kills == 2:
            deadline = time.monotonic() + 60
            while not begun.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        (self.folder / f"kill{kills}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
        return item


def test_what_is_run_again_is_not_forgotten_while_another_item_is_given_up(tmp_path: Path, log: Any) -> None:
    deaths: list[str] = []
    twice, given_up, over = Event(), Event(), Event()

    def listen(line: str) -> None:
        if "Its items are run again" in line:
            deaths.append(line)
            if len(deaths) == 2:
                twice.set()
        elif "which is dropped" in line:
            given_up.set()
            over.wait(NOTICE_SECONDS)

    def source() -> Iterator[int]:
        yield 0
        assert twice.wait(60)
        yield 1
        assert given_up.wait(60)

    log(listen)
    builder = PipelineBuilder[int, Any]().add_source(source()).to(ProcessPoolExecutorConfig(1, on_death="rerun"))
    # A region that gathers does not run items alone that others have died with.
    builder = builder.pipe(KillsBesideAnother(tmp_path), concurrency=2).aggregate(10)
    with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        out = list(pipeline.get_iterator(timeout=60))
        over.set()
        assert out == [[1]]
        assert [failure.positions for failure in pipeline.failures()] == [(0,)]


class SlowToShow:
    """An item whose process dies, and that shows itself only after a while."""

    shown = Event()

    def __repr__(self) -> str:
        self.shown.set()
        time.sleep(NOTICE_SECONDS)
        return "it"


class CannotBeSent(SlowToShow):
    """It cannot be pickled."""

    shown = Event()

    def __reduce__(self) -> Any:
        raise TypeError("not this one")


def kill(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("kind", [SlowToShow, CannotBeSent])
def test_the_pipeline_does_not_end_before_its_only_item_is_told_of(kind: type[SlowToShow]) -> None:
    kind.shown.clear()

    def source() -> Iterator[Any]:
        yield kind()
        assert kind.shown.wait(60)

    builder = PipelineBuilder[Any, Any]().add_source(source()).to(ProcessPoolExecutorConfig(1, on_death="rerun"))
    pipeline = builder.pipe(kill).to(MAIN_PROCESS).add_sink().build(num_threads=2)
    with pytest.raises(PipelineFailure) as caught, pipeline.auto_stop():
        list(pipeline.get_iterator(timeout=60))
    assert "all 1 items failed" in str(caught.value.exceptions[0])


def test_a_handler_of_the_log_may_wait_for_who_asks_the_pipeline(tmp_path: Path, log: Any) -> None:
    alive: list[bool] = []

    def listen(line: str) -> None:
        if "Its items are run again" in line:
            asking = Thread(target=pipeline.set_concurrency, args=("DieOnce", 2), daemon=True)
            asking.start()
            asking.join(10)
            alive.append(asking.is_alive())

    log(listen)
    builder = PipelineBuilder[int, int]().add_source(range(2)).to(ProcessPoolExecutorConfig(1, on_death="rerun"))
    builder = builder.pipe(ops.DieOnce(str(tmp_path / "died"), 0))
    pipeline = builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert sorted(pipeline.get_iterator(timeout=60)) == [0, 1]
    assert alive == [False]
