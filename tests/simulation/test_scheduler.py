"""The simulated world itself: its schedules repeat, its locks exclude, its clocks wait, and it sees what hangs."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("greenlet")

from tests.simulation import world
from tests.simulation.executors import ProcessPool, ThreadPool
from tests.simulation.policies import Adversary, Pct, Policy, Uniform, draw_policy
from tests.simulation.scheduler import Scheduler, step

if TYPE_CHECKING:
    from collections.abc import Callable

POLICIES: dict[str, Callable[[Random], Policy]] = {
    "uniform": lambda random: Uniform(random, jumps=0, mean=2),
    "pct": lambda random: Pct(random, jumps=0, changes=3, length=60),
    "adversary": lambda random: Adversary(random, jumps=0, mean=2, victim=1002, late=0.3),
}


def run(body: Callable[[], None], seed: int, policy: str = "uniform") -> Scheduler:
    scheduler = Scheduler(POLICIES[policy](Random(seed)))
    scheduler.run(body)
    return scheduler


def thirty_steps() -> None:
    for _ in range(30):
        step()


def in_two_threads(work: Callable[[], None]) -> Callable[[], None]:
    def body() -> None:
        threads = [world.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return body


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lost_update_is_found_and_a_lock_prevents_it(policy: str) -> None:
    def final_count(seed: int, *, locked: bool) -> int:
        lock, count = world.Lock(), 0

        def add() -> None:
            nonlocal count
            for _ in range(5):
                if locked:
                    lock.acquire()
                step()
                read = count
                step()
                count = read + 1
                if locked:
                    lock.release()

        run(in_two_threads(add), seed, policy)
        return count

    assert any(final_count(seed, locked=False) < 10 for seed in range(40))
    assert all(final_count(seed, locked=True) == 10 for seed in range(40))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_schedule_repeats(policy: str) -> None:
    def digests() -> list[int]:
        return [run(in_two_threads(thirty_steps), seed, policy).digest for seed in range(20)]

    first = digests()
    assert first == digests()
    assert len(set(first)) > 5


def test_locks_taken_in_two_orders_hang() -> None:
    def hung(seed: int) -> bool:
        one, two = world.RLock(), world.RLock()

        def body() -> None:
            def other() -> None:
                with two:
                    step()
                    with one:
                        step()

            thread = world.Thread(target=other)
            thread.start()
            with one:
                step()
                with two:
                    step()
            thread.join()

        return run(body, seed).hung

    found = [hung(seed) for seed in range(40)]
    assert any(found)
    assert not all(found)


def test_time_passes_when_all_wait() -> None:
    seen: list[tuple[str, float]] = []

    def body() -> None:
        def sleeper() -> None:
            world.sleep(90)
            seen.append(("sleeper", world.monotonic()))

        begin = world.monotonic()
        thread = world.Thread(target=sleeper)
        thread.start()
        thread.join(60)
        seen.append(("joined", world.monotonic()))
        assert thread.is_alive()
        gate = world.Lock()
        gate.acquire()
        assert not gate.acquire(timeout=5)
        thread.join()
        seen.extend([("begin", begin)])

    scheduler = run(body, 1)
    assert not scheduler.errors
    times = dict(seen)
    assert times["joined"] - times["begin"] == pytest.approx(60, abs=1e-3)
    assert times["sleeper"] - times["begin"] == pytest.approx(90, abs=1e-3)


def test_a_condition_wakes_and_times_out() -> None:
    seen = []

    def body() -> None:
        lock = world.RLock()
        condition = world.Condition(lock)

        def waiter() -> None:
            with condition:
                seen.append(condition.wait(10))
                seen.append(condition.wait(10))

        thread = world.Thread(target=waiter)
        thread.start()
        world.sleep(1)
        with condition:
            condition.notify()
        thread.join()

    scheduler = run(body, 1)
    assert not scheduler.errors
    assert seen == [True, False]


@pytest.mark.parametrize("seed", range(10))
def test_event_loops_in_two_threads_keep_apart(seed: int) -> None:
    seen: list[bool] = []

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(3):
            step()
            await asyncio.sleep(0.01)
            seen.append(asyncio.get_running_loop() is loop)

    def body() -> None:
        loop = world.new_event_loop()
        loop.run_until_complete(work(loop))
        loop.close()

    scheduler = run(in_two_threads(body), seed)
    assert not scheduler.errors
    assert seen == [True] * 6


def test_calls_from_another_thread_wake_a_loop() -> None:
    def body() -> None:
        loop = world.new_event_loop()
        future = loop.create_future()
        thread = world.Thread(target=lambda: loop.call_soon_threadsafe(future.set_result, 5))
        thread.start()
        assert loop.run_until_complete(future) == 5
        loop.close()

    scheduler = run(body, 3)
    assert not scheduler.hung
    assert not scheduler.errors


@pytest.mark.parametrize("pool", [ThreadPool, ProcessPool])
def test_pools_make_calls(pool: type[ThreadPool | ProcessPool]) -> None:
    results: list[object] = []

    def body() -> None:
        executor = pool(2)
        futures = [executor.submit(abs, -number) for number in range(5)]
        futures.append(executor.submit(abs, "text"))
        assert world.count_unfinished(futures, 10) == 0
        results.extend(future.exception() or future.result() for future in futures)
        executor.shutdown()

    scheduler = run(body, 4)
    assert not scheduler.errors
    assert not scheduler.fibers
    assert results[:5] == [0, 1, 2, 3, 4]
    assert isinstance(results[5], TypeError)


def test_an_interrupt_reaches_the_first_thread_wherever_it_waits() -> None:
    seen = []

    def body() -> None:
        gate = world.Lock()
        gate.acquire()
        thread = world.Thread(target=thirty_steps)
        thread.start()
        try:
            gate.acquire()
        except KeyboardInterrupt:
            seen.append(True)
        thread.join()

    scheduler = Scheduler(POLICIES["uniform"](Random(1)))
    scheduler.interrupt(5)
    scheduler.run(body)
    assert seen == [True]
    assert not scheduler.errors


def test_what_spins_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.scheduler.MOST_STEPS", 10_000)

    def body() -> None:
        while True:
            step()

    assert run(body, 1).hung


def test_calls_in_other_processes_are_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.scheduler.MOST_STEPS", 1_000)
    results: list[int] = []

    def body() -> None:
        pool = ProcessPool(1)
        for number in range(100):
            for _ in range(20):
                step()
            results.append(pool.submit(abs, -number).result())
        pool.shutdown()

    assert not run(body, 1).hung
    assert results == list(range(100))


def test_policies_of_all_kinds_are_drawn() -> None:
    assert {type(draw_policy(Random(seed))) for seed in range(30)} == {Uniform, Pct, Adversary}
