"""How items move through the stages."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from tests.pipeline.support import run, source

if TYPE_CHECKING:
    from collections.abc import Callable


def test_nobody_is_overtaken_by_more_than_what_is_in_flight() -> None:
    def op(seconds: float) -> Callable[[int], int]:
        def sleep(x: int) -> int:
            time.sleep(seconds)
            return x

        return sleep

    builder = source(range(400)).pipe(op(0.001), concurrency=8).pipe(op(0.0005)).pipe(op(0.002), concurrency=8)
    got = run(builder, num_threads=8, sink=100)
    assert sorted(got) == list(range(400))
    # 8 + 1 + 8 slots and two queues of 2 between them.
    assert max(place - item for place, item in enumerate(got)) <= 8 + 1 + 8 + 4


def test_stages_of_one_slot_keep_the_order() -> None:
    before = sys.getswitchinterval()
    # Threads change at every turn of the evaluation loop that may: whoever can overtake, will.
    sys.setswitchinterval(1e-6)
    try:
        builder = source(range(5000)).pipe(lambda x: x).pipe(lambda x: x).pipe(lambda x: x)
        assert run(builder, num_threads=4, sink=100) == list(range(5000))
    finally:
        sys.setswitchinterval(before)
