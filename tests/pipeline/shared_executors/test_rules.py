"""Rules of the pools that no call of the user shows: how many workers they have, and how long one of their turns is."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.pipeline.support import source, wait_until

from spdl.pipeline import PriorityProcessPoolExecutor, PriorityThreadPoolExecutor
from spdl.pipeline._stages import executors, pools


@pytest.mark.parametrize(("cores", "threads", "processes"), [(1.5, 6, 2), (2.5, 7, 3), (200, 32, 200)])
def test_pools_have_as_many_workers_as_the_container_has_cores(
    cores: float, threads: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "available_cores", lambda: cores)
    with PriorityThreadPoolExecutor() as thread_pool, PriorityProcessPoolExecutor() as process_pool:
        assert f"max_workers={threads}" in repr(thread_pool)
        assert f"max_workers={processes}" in repr(process_pool)


def test_what_is_left_in_the_pool_may_be_cancelled_when_all_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    # Make the thread go on to the last item, although another call was submitted.
    monkeypatch.setattr(executors, "_TURN_SECONDS", 60)
    with PriorityThreadPoolExecutor(1) as pool:
        executor, urgent = pool.get_executor(priority=1), pool.get_executor(priority=2)
        submitted: list[int] = []
        submit = executor.submit

        def counting(*args: Any) -> Any:
            submitted.append(1)
            return submit(*args)

        executor.submit = counting  # type: ignore[method-assign, assignment]
        resume = threading.Event()

        def op(item: int) -> int:
            if item == 0:
                assert wait_until(lambda: len(submitted) == 2)
            else:
                urgent.submit(resume.wait, 60)
            return item

        stages = source([0, 1]).pipe(op, executor=executor, concurrency=2)
        with stages.add_sink(2).build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 1]
            pool.shutdown(wait=False, cancel_futures=True)
        assert len(submitted) == 2
        resume.set()
