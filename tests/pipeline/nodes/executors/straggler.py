"""An op that takes too long, in an executor."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.pipeline.support import source

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from concurrent.futures import Executor


def drop_a_straggler(executor: Executor) -> None:
    """Have one of six ops take too long. It is dropped, and the others come out."""
    release = threading.Event()

    def op(x: int) -> int:
        if x == 1:
            release.wait(timeout=20)
        return x

    stage = source(range(6)).pipe(
        op, executor=executor, concurrency=2, timeout=0.3, on_timeout="drop", output_order="input"
    )
    with stage.add_sink(9).build(num_threads=1).auto_stop() as pipeline:
        got: list[int] = []
        try:
            with suppress(PipelineFailure):
                got += pipeline.get_iterator(timeout=20)
        finally:
            release.set()
        failed = {position for each in pipeline.failures() for position in each.positions}
    # On a busy machine, others may be late as well; if all are, the pipeline fails.
    assert 1 in failed
    assert got == [x for x in range(6) if x not in failed]
