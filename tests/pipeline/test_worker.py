"""How items move through the stages."""

from __future__ import annotations

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
