"""A pipeline in actors delivers what it delivers in this process."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ray.work import SECONDS, await_that, config, flat, kill, pids, runs, slowly

from spdl.pipeline import ItemContext, PipelineBuilder, PipelineFailure
from spdl.ray import ActorLostError, run_on_ray
from spdl.source import EpochSampler

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster"), pytest.mark.timeout(180)]


def test_each_item_comes_once_in_each_epoch() -> None:
    threads = threading.active_count()
    loader = run_on_ray(config(range(500), slowly, batch=16), num_actors=2, lease=64)
    with loader.auto_stop():
        for epoch in range(2):
            assert sorted(flat(loader)) == list(range(500)), epoch
        processes = pids(loader)
        assert len(processes) == 2
        assert threading.active_count() <= threads + 1, "the driver needs no threads of ours"
    for pid in processes:
        await_that(lambda pid=pid: not runs(pid), f"the actor {pid} ends")  # type: ignore[misc]


def test_arrays_are_not_copied_unless_that_is_asked_for() -> None:
    def make(x: int) -> dict[str, Any]:
        return {"pixels": np.full(300_000, x, np.uint8), "label": x}

    for copied in (False, True):
        with run_on_ray(config(range(6), make), num_actors=1, copy=copied).auto_stop() as loader:
            got = list(loader)
        assert sorted(each["label"] for each in got) == list(range(6))
        for each in got:
            assert each["pixels"].flags.writeable is copied
            assert (each["pixels"] == each["label"]).all()


def test_the_order_of_the_source_is_kept_where_that_is_asked_for() -> None:
    def drop_some(x: int) -> int | None:
        return None if x % 7 == 3 else x

    expected = [x for x in range(301) if x % 7 != 3]
    declared = config(range(301), slowly, drop_some, concurrency=4, order="input")
    with run_on_ray(declared, num_actors=3, lease=20, order="input").auto_stop() as loader:
        assert list(loader) == expected
        for epoch in range(3):
            got = []
            for number, item in enumerate(loader):
                got.append(item)
                if number == 60 + 50 * epoch:
                    kill(pids(loader)[0])
            assert got == expected
    assert loader.statistics().epoch == 4


def test_batches_in_order_are_those_of_one_process() -> None:
    declared = config(range(200), slowly, batch=8, concurrency=3, order="input")
    with run_on_ray(declared, num_actors=2, lease=32, order="input").auto_stop() as loader:
        got = []
        for number, batch in enumerate(loader):
            got.append(batch)
            if number == 5:
                kill(pids(loader)[0])
    assert got == [list(range(first, min(first + 8, 200))) for first in range(0, 200, 8)]


@pytest.mark.parametrize("seed", range(3))
def test_killed_actors_lose_and_repeat_nothing(seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311

    def spread(x: int) -> Iterator[int]:
        for number in range(x % 4):
            yield 10 * x + number

    expected = sorted(10 * x + number for x in range(800) for number in range(x % 4))
    declared = config(range(800), slowly, spread, batch=5)
    loader = run_on_ray(declared, num_actors=2, lease=40)
    with loader.auto_stop():
        got: list[int] = []
        kills = sorted(generator.sample(range(5, 200), 4))
        for number, batch in enumerate(loader):
            got += batch
            if number in kills:
                running = pids(loader)
                # All at once, the last time.
                for pid in running if number == kills[-1] else running[:1]:
                    kill(pid)
        lost = loader.statistics().num_lost
    assert sorted(got) == expected
    assert lost == 0, "the statistics are of the next epoch"


def test_a_loss_is_raised_where_that_is_asked_for_and_the_state_is_exact() -> None:
    declared = config(range(400), slowly, batch=4)
    loader = run_on_ray(declared, num_actors=2, lease=32, on_loss="raise")
    got: list[int] = []
    with loader.auto_stop(), pytest.raises(ActorLostError, match=r"process \d+ on "):  # noqa: PT012 - at any step.
        for number, batch in enumerate(loader):
            got += batch
            if number == 10:
                kill(pids(loader)[0])
    with pytest.raises(ActorLostError):
        next(iter(loader))
    again = run_on_ray(declared, num_actors=1, lease=50)
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    with again.auto_stop():
        got += flat(again)
    assert sorted(got) == list(range(400))


def test_an_item_that_ends_its_process_each_time_is_no_endless_loop() -> None:
    def die(x: int) -> int:
        if x == 13:
            os._exit(1)
        return x

    with (
        run_on_ray(config(range(20), die), num_actors=1, lease=4).auto_stop() as loader,
        pytest.raises(ActorLostError, match="in a row"),
    ):
        for _ in loader:
            pass


def test_it_goes_on_elsewhere_from_any_cut() -> None:
    def spread(x: int) -> Iterator[tuple[int, int]]:
        for number in range(3):
            yield x, number

    expected = sorted((x, number) for x in range(90) for number in range(3))
    got: list[Any] = []
    state: Any = None
    declared = config(range(90), slowly, spread)
    for actors, reads in ((2, 50), (1, 71), (3, 1000)):
        loader = run_on_ray(declared, num_actors=actors, lease=16)
        if state is not None:
            loader.load_state_dict(state)
        with loader.auto_stop():
            for number, item in enumerate(loader):
                got.append(item)
                if number == reads:
                    break
        state = json.loads(json.dumps(loader.state_dict()))
        assert len(json.dumps(state)) < 2_000
    assert sorted(got) == expected
    assert state is not None
    assert state["epoch"] == 1


def test_a_loop_that_is_left_goes_on_and_so_does_a_loader_that_was_stopped() -> None:
    loader = run_on_ray(config(range(200), slowly), num_actors=2, lease=16)
    got = []
    for stop in (True, False, True):
        for item in loader:
            got.append(item)
            if len(got) % 40 == 0:
                break
        if stop:
            loader.stop()
    got += loader
    loader.stop()
    assert sorted(got) == list(range(200))


def test_a_sampler_gives_each_epoch_its_own_order_and_goes_on_in_the_middle() -> None:
    def make() -> Any:
        sampler = EpochSampler(120, seed=3, rank=0, world_size=1)
        return run_on_ray(config(sampler, slowly, concurrency=3, order="input"), num_actors=2, lease=25, order="input")

    reference = EpochSampler(120, seed=3, rank=0, world_size=1)
    expected = [list(reference) for _ in range(3)]
    assert expected[0] != expected[1]
    loader = make()
    with loader.auto_stop():
        assert list(loader) == expected[0]
        first = [item for item, _ in zip(loader, range(37), strict=False)]
    resumed = make()
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    with resumed.auto_stop():
        rest = list(resumed)
        assert list(resumed) == expected[2]
    # zip has read one more than it gave.
    assert first + rest == expected[1][:37] + expected[1][38:]


def test_ops_are_told_where_items_come_from() -> None:
    def tell(item: str, context: ItemContext) -> tuple[str, int, int, int]:
        return item, context.epoch, context.position, context.index

    letters = [chr(ord("a") + number % 26) for number in range(60)]
    with run_on_ray(config(letters, tell), num_actors=2, lease=8).auto_stop() as loader:
        for epoch in range(2):
            assert sorted(loader, key=lambda each: each[2]) == [
                (letter, epoch, position, position) for position, letter in enumerate(letters)
            ]


def test_actors_come_and_go_while_it_runs() -> None:
    loader = run_on_ray(config(range(400), slowly), num_actors=1, lease=32)

    def read_until(number: int, *, resize: int) -> None:
        """Change the number of actors within an epoch, and read epochs until so many are there."""
        deadline = time.monotonic() + SECONDS
        there = -1
        while there != number:
            assert time.monotonic() < deadline, f"{there} actors in place of {number}"
            got = []
            for item in loader:
                got.append(item)
                if len(got) == 50:
                    loader.resize(resize)
            assert sorted(got) == list(range(400))
            there = len(loader.statistics().actors)

    with loader.auto_stop():
        read_until(1, resize=1)
        read_until(3, resize=3)
        read_until(1, resize=1)


def test_a_stage_that_fails_fails_the_loop_with_its_error() -> None:
    def fail(x: int) -> int:
        if x == 30:
            raise OSError("disk on fire")
        return x

    declared = PipelineBuilder().add_source(range(100)).pipe(fail, max_failures=0).add_sink(2).get_config()
    loader = run_on_ray(declared, num_actors=2, lease=10)
    with loader.auto_stop(), pytest.raises(PipelineFailure) as caught:
        for _ in loader:
            pass
    assert "exceeds the threshold" in str(caught.value.exceptions[0])
    assert "disk on fire" in "".join(caught.value.__notes__), "the actor's own traceback"


class _OneWay:
    """Can be pickled, and not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [(threading.Lock, TypeError, "cannot pickle"), (_OneWay, RuntimeError, "cannot unpickle a result .*no number")],
)
def test_a_result_that_cannot_be_sent_is_an_error_that_says_so(make: Any, error: type[Exception], text: str) -> None:
    loader = run_on_ray(config(range(40), lambda x: make() if x == 20 else x), num_actors=2, lease=5)
    with loader.auto_stop(), pytest.raises(error, match=f"(?s){text}"):
        list(loader)


def test_a_second_iterator_ends_with_the_epoch_too() -> None:
    with run_on_ray(config(range(60)), num_actors=1).auto_stop() as loader:
        first, second = iter(loader), iter(loader)
        got = [next(first), next(second), next(first)]
        got += [*second, *first]
        assert sorted(got) == list(range(60))
        assert sorted(loader) == list(range(60)), "the next epoch"


def test_an_epoch_in_which_all_items_fail_is_an_error() -> None:
    def fail(x: int) -> int:
        raise OSError("disk on fire")

    with (
        run_on_ray(config(range(20), fail), num_actors=2).auto_stop() as loader,
        pytest.raises(PipelineFailure) as caught,
    ):
        list(loader)
    assert "20 in stage 'fail'" in str(caught.value.exceptions[0])


def test_statistics_have_each_actor_and_each_stage() -> None:
    with run_on_ray(config(range(600), slowly, batch=4), num_actors=2, lease=16).auto_stop() as loader:
        statistics = loader.statistics()
        for number, _ in enumerate(loader):
            if number < 40:
                continue
            # On a busy machine one actor may begin when the other one has done half of it all.
            statistics = loader.statistics()
            if len(statistics.actors) == 2 and all(
                actor.pipeline.stages[1].num_completed for actor in statistics.actors
            ):
                break
        assert statistics.num_delivered == number + 1
        assert [stage.name for stage in statistics.stages][1] == "slowly"
        each = [actor.pipeline.stages[1].num_completed for actor in statistics.actors]
        assert len(each) == 2
        assert statistics.stages[1].num_completed == sum(each)
        assert all(each)


def test_what_cannot_be_pickled_is_an_error_before_an_actor_starts() -> None:
    lock = threading.Lock()

    def op(x: int) -> int:
        with lock:
            return x

    with pytest.raises(TypeError, match=r"`config` must be a pipeline that can be pickled.*lock"):
        run_on_ray(config(range(3), op), num_actors=1)


def test_sources_that_cannot_begin_anywhere_are_refused() -> None:
    with pytest.raises(ValueError, match="begin at any position"):
        run_on_ray(config(iter([1, 2]), slowly), num_actors=1)
    with pytest.raises(ValueError, match="do not keep the order"):
        run_on_ray(config(range(9), slowly), num_actors=1, order="input")
    with pytest.raises(ValueError, match="multiple of the 8 items"):
        run_on_ray(config(range(9), slowly, batch=8, order="input"), num_actors=1, lease=12, order="input")


def test_options_that_the_loader_chooses_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"`actor_options` must be without max_restarts, name, which the loader chooses"
    ):
        run_on_ray(config(range(9), slowly), num_actors=1, actor_options={"name": "one", "max_restarts": 3})
    with pytest.raises(ValueError, match="argument of `run_on_ray`"):
        run_on_ray(config(range(9), slowly), num_actors=1, actor_options={"num_cpus": 2})
    with pytest.raises(TypeError, match="`actor_options` must be a dict of options of Ray"):
        run_on_ray(config(range(9), slowly), num_actors=1, actor_options=3)  # type: ignore[arg-type]
    run_on_ray(config(range(9), slowly), num_actors=1, actor_options={"resources": {"near": 1}})


def test_states_of_others_are_refused() -> None:
    loader = run_on_ray(config(range(9), slowly), num_actors=1)
    state = loader.state_dict()
    with pytest.raises(ValueError, match="other stages"):
        run_on_ray(config(range(9), slowly, batch=3), num_actors=1).load_state_dict(state)
    with pytest.raises(ValueError, match="another source"):
        run_on_ray(config(range(8), slowly), num_actors=1).load_state_dict(state)
    with pytest.raises(ValueError, match="damaged"):
        loader.load_state_dict({**state, "position": 3})
    with pytest.raises(TypeError, match="state"):
        loader.load_state_dict(3)  # type: ignore[arg-type]
