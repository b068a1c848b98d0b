"""What the tuner decides, in virtual time."""

from __future__ import annotations

import pytest
from tests.tune.random_graphs import try_graph
from tests.tune.simulator import MOST, Graph, Machine, Stage, go_on, head_of, tune

from spdl.pipeline._report.sample import Sample, SourceSample, StageSample
from spdl.tune._pace import Samples, pace_of


def io(seconds: float, **options: object) -> Stage:
    return Stage(io=seconds, sigma=0.1, **options)  # type: ignore[arg-type]


def native(seconds: float, **options: object) -> Stage:
    return Stage(native=seconds, sigma=0.1, **options)  # type: ignore[arg-type]


class TestRaising:
    def test_a_stage_that_waits_gets_all_threads(self) -> None:
        _, session = tune(Graph((io(0.02),)), 6)
        assert session.settled
        assert session.limits.concurrency == (MOST,)
        assert "threads are the limit" in session.reason

    def test_it_takes_a_few_seconds(self) -> None:
        _, session = tune(Graph((io(0.02),)), 3)
        assert session.limits.concurrency == (MOST,)

    def test_a_chain_is_raised_together(self) -> None:
        _, session = tune(Graph((io(0.005), io(0.01), io(0.02))), 6)
        first, second, third = session.limits.concurrency
        assert first < second < third
        assert session.limits.num_threads == MOST

    def test_computing_takes_as_many_slots_as_cores(self) -> None:
        _, session = tune(Graph((native(0.002), native(0.016)), machine=Machine(cores=4)), 8)
        assert sum(session.limits.concurrency) <= 8
        assert "CPU is the limit" in session.reason

    def test_no_more_than_the_source_gives(self) -> None:
        _, session = tune(Graph((io(0.02),), source=0.004), 8)
        assert 5 <= session.limits.concurrency[0] <= 8

    def test_no_more_than_a_pinned_stage_passes_on(self) -> None:
        _, session = tune(Graph((io(0.02), io(0.01, pinned=2))), 8)
        assert session.limits.concurrency[1] == 2
        assert 4 <= session.limits.concurrency[0] <= 8

    def test_no_more_than_fit_into_the_bytes_in_flight(self) -> None:
        _, session = tune(Graph((io(0.02),), room=6), 8)
        assert session.settled
        assert 3 <= session.limits.concurrency[0] <= 16
        assert "bytes in flight are the limit" in session.reason

    def test_async_stages_take_no_threads(self) -> None:
        _, session = tune(Graph((io(0.05, on_threads=False),)), 6)
        assert session.limits.concurrency == (MOST,)
        assert session.limits.num_threads == 1


class TestCopies:
    """A stage runs in several workers of a region, with as many slots in each; the simulator sees to that."""

    def test_all_of_them_get_more(self) -> None:
        _, session = tune(Graph((io(0.02, copies=3, on_threads=False), io(0.002))), 8)
        assert session.settled
        assert 30 <= session.limits.concurrency[0] <= MOST // 3 * 3
        first, *_ = session.log
        each = first.limits.concurrency[0] // 3
        assert f"concurrency of 'stage 0' 1 -> {each} in each of 3 workers" in first.reason

    def test_a_full_stage_gets_one_more_in_each(self) -> None:
        _, session = tune(Graph((native(0.01, copies=2, on_threads=False),), machine=Machine(cores=4)), 8)
        assert 4 <= session.limits.concurrency[0] <= 8

    def test_all_of_them_give_back(self) -> None:
        world, session = tune(Graph((io(0.02, copies=3, on_threads=False),), consumer=0.001), 8)
        assert session.limits.concurrency[0] >= 15
        world.graph = Graph(world.graph.stages, consumer=0.02)
        go_on(world, session, 8)
        assert session.limits.concurrency[0] <= 6

    def test_a_change_is_judged_when_it_is_in_force(self) -> None:
        _, session = tune(Graph((io(1.0, copies=2, on_threads=False),), lag=8.0), 60)
        assert session.limits.concurrency[0] >= 8
        assert not any("undone" in entry.reason for entry in session.log)

    def test_what_was_under_way_when_it_came_into_force_does_not_count(self) -> None:
        graph = Graph((io(2.0),))
        samples = Samples(head_of(graph))
        for tick in range(400):
            time = tick / 10
            # From the eighth second on there are two at once, each of which takes two seconds.
            done = int(time / 2) + max(0, int((time - 8) / 2))
            stage = StageSample(completed=done, busy_seconds=2.0 * done, running=1 + (time >= 8), concurrency=2)
            sources = (SourceSample(),)
            samples.add(
                Sample(now=time, seen_at=time, delivered=done, sources=sources, stages=(stage,), lags=0 < time < 8)
            )
        pace = pace_of(samples.all[-1])
        assert pace is not None
        its = samples.whole(pace)
        assert its is not None
        assert 29 <= its.window.seconds <= 30

    def test_workers_that_never_learn_of_it_are_not_waited_for(self) -> None:
        _, session = tune(Graph((io(0.1, copies=2, on_threads=False),), lag=1000.0), 75)
        assert "undone" in session.log[1].reason

    def test_the_limit_is_told_as_it_is_declared(self) -> None:
        _, session = tune(Graph((io(0.02, copies=3, on_threads=False, pinned=6),)), 6)
        assert "its concurrency is 2 in each of 3 workers" in session.reason


class TestLeavingAlone:
    def test_a_slow_consumer(self) -> None:
        _, session = tune(Graph((io(0.02),), consumer=0.03), 10)
        assert session.log == []
        assert "consumer is the limit" in session.reason

    def test_the_gil(self) -> None:
        _, session = tune(Graph((Stage(gil=0.01, sigma=0.1),)), 10)
        assert session.limits.concurrency == (1,)
        assert session.settled

    def test_what_does_not_help_is_undone(self) -> None:
        world, session = tune(Graph((Stage(gil=0.01, sigma=0.1),)), 10)
        raised, undone, *_ = session.log
        assert raised.limits.concurrency == (2,)
        assert undone.limits.concurrency == (1,)
        assert "undone" in undone.reason
        assert world.limits == session.limits

    def test_nothing_changes_once_it_has_settled(self) -> None:
        for graph in (
            Graph((io(0.02),)),
            Graph((Stage(gil=0.01, sigma=0.1),)),
            Graph((native(0.004), native(0.004))),
            Graph((io(0.02),), consumer=0.03),
        ):
            world, session = tune(graph, 10)
            changes = len(session.log)
            assert session.settled
            go_on(world, session, 60)
            assert len(session.log) == changes


class TestInEachOthersWay:
    def test_only_the_stage_that_gains_nothing_is_put_back(self) -> None:
        _, session = tune(Graph((io(0.04), Stage(gil=0.03, sigma=0.1)), machine=Machine(cores=8)), 15)
        first, second = session.limits.concurrency
        assert first >= 2
        assert second == 1
        assert any("in each other's way" in entry.reason for entry in session.log)
        assert session.reason.startswith("Stage 'stage 1' is the limit")

    def test_a_disk_that_serves_four_at_once(self) -> None:
        _, session = tune(Graph((io(0.02, inner=4),)), 12)
        assert session.settled
        assert 4 <= session.limits.concurrency[0] <= 9

    def test_it_is_tried_again_when_the_pipeline_has_changed(self) -> None:
        world, session = tune(Graph((Stage(gil=0.01, sigma=0.1),)), 10)
        assert session.limits.concurrency == (1,)
        world.graph = Graph((io(0.04),))
        go_on(world, session, 10)
        assert session.limits.concurrency[0] >= 16


class TestSharedCores:
    """Other processes use the cores as well, and may tune themselves."""

    def test_bursts_are_no_lack_of_cores(self) -> None:
        world, session = tune(Graph((io(0.02), native(0.001)), machine=Machine(cores=1)), 8)
        before = world.cpu
        go_on(world, session, 10)
        assert (world.cpu - before) / 10 >= 0.92

    def test_several_that_tune_themselves_do_not_drive_each_other_up(self) -> None:
        slots = [1, 1, 1]
        for _ in range(4):
            for index in range(3):
                machine = Machine(others=sum(slots) - slots[index])
                _, session = tune(Graph((native(0.01),), machine=machine), 8)
                slots[index] = session.limits.concurrency[0]
        assert sum(slots) <= 16


class TestChanges:
    def test_a_stage_that_becomes_slower_is_raised_again(self) -> None:
        world, session = tune(Graph((io(0.01),), consumer=0.004), 8)
        before = session.limits.concurrency[0]
        assert before < 8
        world.slowed[0] = 4.0
        go_on(world, session, 5)
        assert session.limits.concurrency[0] >= 3 * before

    def test_a_consumer_that_becomes_slower_gives_back(self) -> None:
        world, session = tune(Graph((io(0.02),), consumer=0.001), 8)
        assert session.limits.concurrency[0] >= 16
        world.graph = Graph(world.graph.stages, consumer=0.02)
        go_on(world, session, 8)
        assert session.limits.concurrency[0] <= 4
        assert session.log[-1].limits.concurrency[0] <= 4


class TestPurity:
    def test_a_run_is_repeatable(self) -> None:
        graph = Graph((io(0.02), native(0.004)))
        assert tune(graph, 5)[1].log == tune(graph, 5)[1].log

    def test_nothing_is_decided_before_anything_came(self) -> None:
        graph = Graph((io(30.0),))
        world, session = tune(graph, 5)
        assert session.log == []
        assert not session.settled
        assert world.read == 0

    def test_a_limit_set_by_hand_stays(self) -> None:
        graph = Graph((io(0.02),))
        world, session = tune(graph, 1)
        world.change(type(world.limits)(3, (3,), 3))
        session.pin(world.limits, session.budgets.pin("stage 0", 3))
        go_on(world, session, 6)
        assert session.limits.concurrency == (3,)


class TestPauses:
    """Time in which the consumer reads nothing is no time to the tuner."""

    def test_a_pause_says_nothing_of_the_rate(self) -> None:
        world, session = tune(Graph((io(0.02),)), 0.4)
        world.pause(30.0)
        go_on(world, session, 33)
        _, undisturbed = tune(Graph((io(0.02),)), 3)
        assert session.limits == undisturbed.limits
        assert not any("undone" in entry.reason for entry in session.log)

    def test_a_consumer_that_takes_long_steps_is_slow(self) -> None:
        _, session = tune(Graph((io(0.02),), consumer=0.5), 30)
        assert session.log == []
        assert session.settled
        assert "consumer is the limit" in session.reason

    def test_limits_stay_through_a_pause(self) -> None:
        world, session = tune(Graph((Stage(io=0.02, sigma=0.1),)), 8)
        assert session.settled
        limits, changes = session.limits, len(session.log)
        world.pause(30.0)
        go_on(world, session, 40)
        assert session.limits == limits
        assert len(session.log) == changes


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(10, 60, 10))])
def test_random_graphs_come_near_to_their_best(first: int) -> None:
    outcomes = [try_graph(seed) for seed in range(first, first + 10)]
    assert sum(outcome.share >= 0.95 for outcome in outcomes) >= 9
    assert min(outcome.share for outcome in outcomes) >= 0.9
    assert max(outcome.turns for outcome in outcomes) <= 2


def test_what_is_kept_is_bounded() -> None:
    graph = Graph((io(0.02),), consumer=0.03)
    _, session = tune(graph, 60)
    assert len(session.samples.all) <= 128
