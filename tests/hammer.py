"""Use one object from several threads at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

THREADS = 8
ROUNDS = 20


def hammer(*works: Callable[[], object]) -> list[list[object]]:
    """Run the works in turn in each of several threads that start together. Return the results, work by work."""
    barrier = threading.Barrier(THREADS)
    returned: list[list[object]] = [[] for _ in works]

    def run(shift: int) -> None:
        barrier.wait()
        for number in range(ROUNDS * len(works)):
            index = (shift + number) % len(works)
            returned[index].append(works[index]())

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))
    return returned


def assert_agree(returned: list[list[object]]) -> None:
    for values in returned:
        assert len(values) == THREADS * ROUNDS
        assert all(value == values[0] for value in values)
