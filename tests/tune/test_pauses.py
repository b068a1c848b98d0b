"""Time in which the consumer reads nothing is no time to the tuner."""

from __future__ import annotations

from tests.tune.random_graphs import go_on, tune
from tests.tune.simulator import Graph, Stage

from spdl.tune._observation import Observation
from spdl.tune._pauses import Pauses


def at(time: float, read: int, *, waits: bool = False) -> Observation:
    return Observation(time, 2 * time, 0.0, read, 0.0, waits, time, ())


def test_a_pause_is_cut_out() -> None:
    pauses = Pauses()
    assert pauses.without(at(0.0, 0)) == at(0.0, 0)
    assert pauses.without(at(0.5, 3)) == at(0.5, 3)
    assert pauses.without(at(0.6, 3)) is None
    assert pauses.without(at(7.0, 3)) is None
    after = pauses.without(at(10.5, 4))
    assert after is not None
    assert (after.time, after.cpu, after.source, after.read) == (0.5, 1.0, 0.5, 4)
    later = pauses.without(at(10.75, 5))
    assert later is not None
    assert (later.time, later.cpu, later.source) == (0.75, 1.5, 0.75)


def test_a_slow_consumer_is_no_pause() -> None:
    pauses = Pauses()
    for step in range(10):
        observation = at(0.5 * step, step)
        assert pauses.without(observation) == observation
        assert pauses.without(at(0.5 * step + 0.25, step)) is None


def test_a_consumer_that_waits_is_no_pause() -> None:
    pauses = Pauses()
    for step in range(10):
        observation = at(float(2 * step), 0, waits=True)
        assert pauses.without(observation) == observation
    # It had to wait until now.
    assert pauses.without(at(20.0, 1)) == at(20.0, 1)


def test_limits_stay_through_a_pause() -> None:
    world, session = tune(Graph((Stage(io=0.02, sigma=0.1),)), 8)
    assert session.settled
    limits, changes = session.limits, len(session.log)
    world.pause(30.0)
    go_on(world, session, 40)
    assert session.limits == limits
    assert len(session.log) == changes
