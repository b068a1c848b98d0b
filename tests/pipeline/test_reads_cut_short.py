"""What a read shows that ends without an item: nothing of how it found the pipeline empty."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import Pipeline

READS: dict[str, Callable[[Pipeline[Any], float | None], object]] = {
    "get_item": lambda pipeline, timeout: pipeline.get_item(timeout=timeout),
    "next": lambda pipeline, timeout: next(pipeline.get_iterator(timeout=timeout)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_timeout_shows_itself_alone(read: Callable[[Pipeline[Any], float | None], object]) -> None:
    gate = threading.Event()
    with source([0]).pipe(lambda _: gate.wait(60)).add_sink().build(num_threads=1).auto_stop() as pipeline:
        with pytest.raises(TimeoutError) as raised:
            read(pipeline, 0.01)
        gate.set()
    assert raised.value.__context__ is None


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_ctrl_c_shows_itself_alone(read: Callable[[Pipeline[Any], float | None], object]) -> None:
    gate, main = threading.Event(), threading.main_thread().ident
    assert main is not None

    def waits() -> bool:
        frame = sys._current_frames()[main]
        return frame.f_code.co_name == "wait" and frame.f_code.co_filename.endswith("_iterators.py")

    def op(_: object) -> None:
        assert wait_until(waits)
        # A signal that comes right before the thread blocks does not wake it.
        while waits() and not gate.is_set():
            signal.pthread_kill(main, signal.SIGINT)
            gate.wait(1)

    with source([0]).pipe(op).add_sink().build(num_threads=1).auto_stop() as pipeline:
        with pytest.raises(KeyboardInterrupt) as raised:
            read(pipeline, 60)
        gate.set()
    assert raised.value.__context__ is None
