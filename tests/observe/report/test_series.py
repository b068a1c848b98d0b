from tests.observe.export.observed import stage, told

from spdl.observe import Sample
from spdl.observe._report.series import stage_series


def sample(at: float, elapsed: float, emitted: int, **fields: float) -> Sample:
    return Sample(at, told(stage("decode", elapsed=elapsed, num_emitted=emitted, **fields), elapsed=elapsed).now)


def test_rates_and_shares_are_those_between_two_samples() -> None:
    samples = [
        sample(0.0, 0.0, 0, concurrency=4, queue_size=1),
        sample(2.5, 2.0, 20, concurrency=4, busy_seconds=4.0, starved_seconds=1.0, queue_size=2),
        sample(3.5, 3.0, 50, concurrency=4, busy_seconds=8.0, starved_seconds=1.0, blocked_seconds=0.25, queue_size=0),
    ]
    series = stage_series(samples, 0)
    assert series.items == [(2.5, 10.0), (3.5, 30.0)]
    assert series.busy == [(2.5, 0.5), (3.5, 1.0)]
    assert series.starved == [(2.5, 0.5), (3.5, 0.0)]
    assert series.blocked == [(2.5, 0.0), (3.5, 0.25)]
    assert series.held == [(2.5, 0.0), (3.5, 0.0)]
    assert series.queue == [(0.0, 1.0), (2.5, 2.0), (3.5, 0.0)]


def test_an_op_that_took_longer_than_the_interval_is_no_more_than_all_of_it() -> None:
    series = stage_series([sample(0.0, 1.0, 0), sample(1.0, 2.0, 1, busy_seconds=1.9)], 0)
    assert series.busy == [(1.0, 1.0)]


def test_nothing_is_known_where_the_next_epoch_of_a_loader_begins() -> None:
    samples = [sample(0.0, 1.0, 10), sample(1.0, 2.0, 20), sample(2.0, 0.5, 5), sample(3.0, 1.5, 25)]
    assert stage_series(samples, 0).items == [(1.0, 10.0), (2.0, None), (3.0, 20.0)]


def test_before_the_start_and_after_the_end_there_are_no_rates() -> None:
    samples = [sample(0.0, 0.0, 0), sample(1.0, 0.0, 0), sample(2.0, 1.0, 5), sample(3.0, 1.0, 5)]
    assert stage_series(samples, 0).items == [(2.0, 5.0)]
