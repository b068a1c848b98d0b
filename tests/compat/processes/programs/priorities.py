"""Executors that several stages share, and whose calls have ranks."""

# ruff: noqa: T201 - what it prints is compared.

from __future__ import annotations

import pickle
import sys
import threading
from typing import Any

from spdl.pipeline import (
    PipelineBuilder,
    PriorityInterpreterPoolExecutor,
    PriorityProcessPoolExecutor,
    PriorityThreadPoolExecutor,
    iterate_in_subinterpreter,
)


def twice(number: int) -> int:
    return 2 * number


def plus_one(number: int) -> int:
    return number + 1


def order_of(pool: PriorityThreadPoolExecutor, entrypoints: dict[str, Any]) -> list[str]:
    """Return the order in which calls run that have all waited."""
    began, may_go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def block() -> None:
        began.set()
        may_go_on.wait()

    first = pool.get_executor(priority=1000).submit(block)
    began.wait()
    futures = [each.submit(done.append, f"{name}{number}") for name, each in entrypoints.items() for number in range(2)]
    may_go_on.set()
    for future in [first, *futures]:
        future.result()
    return done


def main() -> None:
    """Print what the program finds."""
    with PriorityThreadPoolExecutor(1) as pool:
        print(f"later ones first: {order_of(pool, {name: pool.get_executor() for name in 'abc'})}")
    with PriorityThreadPoolExecutor(1) as pool:
        chosen = {name: pool.get_executor(priority=rank) for name, rank in (("low", 1), ("high", 9), ("middle", 5))}
        print(f"by rank: {order_of(pool, chosen)}")

    kinds: tuple[Any, ...] = (PriorityThreadPoolExecutor, PriorityProcessPoolExecutor)
    for make in kinds:
        pool = make(2)
        builder: Any = PipelineBuilder().add_source(range(8))
        builder.pipe(twice, executor=pool.get_executor(), concurrency=2)
        builder.pipe(plus_one, executor=pool.get_executor(), concurrency=2)
        pipeline = builder.add_sink(3).build(num_threads=1)
        with pipeline.auto_stop():
            print(f"{make.__name__} in a pipeline: {sorted(pipeline)}")
        print(f"{make.__name__}: {list(pool.get_executor().map(twice, range(3)))}")
        pool.shutdown()
        try:
            pool.get_executor().submit(twice, 1)
        except RuntimeError:
            print(f"{make.__name__} after its end: RuntimeError")

    pool = PriorityThreadPoolExecutor(2)
    both = pickle.loads(pickle.dumps([pool.get_executor(), pool.get_executor()]))  # noqa: S301 - our own.
    print(f"pickled: {[each.submit(twice, 4).result() for each in both]}")
    pool.shutdown()

    if sys.version_info < (3, 14):
        for name, make_it in (
            ("PriorityInterpreterPoolExecutor", lambda: PriorityInterpreterPoolExecutor(1)),
            ("iterate_in_subinterpreter", lambda: iterate_in_subinterpreter(list)),
        ):
            try:
                made: Any = make_it()
                list(made)
            except RuntimeError as error:
                print(f"{name}: RuntimeError {'3.14' in str(error)}")


if __name__ == "__main__":
    main()
