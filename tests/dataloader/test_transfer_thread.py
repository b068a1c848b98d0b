from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from concurrent.futures import wait

import pytest
from tests.pipeline.support import let_go, wait_until

from spdl.dataloader._transfer_thread import TransferThread

HANG = """
import threading
from spdl.dataloader._transfer_thread import TransferThread

begun = threading.Event()
never = threading.Event()
executor = TransferThread()
executor.submit(lambda: begun.set() or never.wait())
assert begun.wait(20)
print("leaving")
"""


def test_calls_follow_each_other_in_one_thread() -> None:
    executor = TransferThread()
    order: list[int] = []

    def call(number: int, *, by: int) -> tuple[int, int]:
        order.append(number)
        return number * by, threading.get_ident()

    futures = [executor.submit(call, number, by=2) for number in range(50)]
    wait(futures)
    assert [future.result()[0] for future in futures] == list(range(0, 100, 2))
    assert order == list(range(50))
    assert len({future.result()[1] for future in futures}) == 1


def test_what_a_call_raises_comes_out_and_the_next_goes_on() -> None:
    executor = TransferThread()
    with pytest.raises(ZeroDivisionError):
        executor.submit(lambda: 1 // 0).result(20)
    with pytest.raises(SystemExit):
        executor.submit(sys.exit, 3).result(20)
    assert executor.submit(abs, -1).result(20) == 1


def test_a_call_that_is_given_up_before_it_begins_is_left_out() -> None:
    executor = TransferThread()
    may_end = threading.Event()
    first, second = executor.submit(may_end.wait, 20), executor.submit(abs, -1)
    assert second.cancel()
    may_end.set()
    assert first.result(20)
    assert executor.submit(abs, -2).result(20) == 2
    assert second.cancelled()


def test_it_keeps_no_result_and_ends_with_its_last_reference() -> None:
    class Result:
        pass

    executor = TransferThread()
    thread = executor.submit(threading.current_thread).result(20)
    gone = weakref.ref(executor.submit(Result).result(20))

    def is_gone() -> bool:
        let_go()
        return gone() is None

    assert wait_until(is_gone)
    del executor
    gc.collect()
    assert wait_until(lambda: not thread.is_alive())


def test_a_call_that_does_not_return_keeps_no_process_alive() -> None:
    done = subprocess.run([sys.executable, "-c", HANG], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "leaving\n"
