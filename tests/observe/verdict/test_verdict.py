"""What limits a pipeline, decided from measures that are made up."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import pytest

from spdl.observe import SourceWindow, StageWindow, Verdict, Window
from spdl.observe import verdict as decide
from spdl.observe._verdict.verdict import KINDS
from spdl.observe._window.window import Ending

STAGE = StageWindow(
    name="work",
    op="work",
    gathers=False,
    served_by="threads",
    adjustable=True,
    concurrency=4,
    pool=0,
    occupancy=1.0,
    rate=100.0,
    seconds=0.04,
    cpu=0.0,
    failing=0.0,
    lost=0.0,
    held=0.0,
    buffered=0,
    oldest=0.01,
    runs=0.0,
    waits_for_thread=0.0,
    waits=1.0,
)
SOURCE = SourceWindow("src", busy=0.01, rate=100.0, oldest=0.0)
PIPELINE = Window(
    seconds=1.0,
    num_threads=8,
    busy_threads=4.0,
    cores=8.0,
    gil=True,
    cores_used=0.5,
    cores_used_by_others=0.0,
    cores_waited_for=0.0,
    consumer_waits=0.9,
    consumer_waits_for=0.01,
    delivered=100.0,
    sink_size=0,
    sink_capacity=4,
    sink_fill=0.0,
    sources=(SOURCE,),
    stages=(STAGE,),
)


def measures(*stages: dict[str, Any], **changes: Any) -> Window:
    made = tuple(dataclasses.replace(STAGE, **stage) for stage in stages) or (STAGE,)
    return dataclasses.replace(PIPELINE, **{"stages": made, **changes})


SMALL = {"name": "small", "occupancy": 0.1, "seconds": 0.001}
# What ops in four threads do that compute and hold the GIL, and what they do that compute beside each other.
IN_TURNS = {"cpu": 0.25, "runs": 0.4, "waits_for_thread": 0.6, "waits": 0.0}
AT_A_LOCK = {"runs": 0.02, "waits_for_thread": 0.7, "waits": 0.28, "alone": 0.9, "sleeps": 50.0}
BESIDE = {"cpu": 0.9, "runs": 0.9, "waits": 0.1}
STUCK = {"delivered": 0.0, "consumer_waits": 1.0}
BLOCKING = (SourceWindow("src", busy=1.0, rate=0.0, oldest=30.0),)
SHORT: dict[str, Any] = {"max_bytes": 4_000_000, "peak_bytes": 4_000_000, "short_of_bytes": 0.9}
FOR_A_POOL = {"runs": 0.0, "waits_for_thread": 1.0, "waits": 0.0}
READS = {
    **FOR_A_POOL,
    "concurrency": 2,
    "cpu": 0.05,
    "alone": 0.4,
    "per_second": dataclasses.replace(STAGE.per_second, bytes_read=3 * 2**20),
}
# Other programs have the cores.
CROWDED_OUT: dict[str, Any] = {"cores": 2.0, "cores_used": 0.3, "cores_waited_for": 1.7}
CROWDED = {"cores_used": 8.0, "cores_used_by_others": 7.5, "cores_waited_for": 20.0}


@pytest.mark.parametrize(
    ("given", "kind", "stage"),
    [
        (measures(), "I/O", "work"),
        (measures({}, SMALL), "I/O", "work"),
        (measures({}, {**SMALL, "occupancy": 0.9}), "I/O", "work"),
        (measures({}, {**SMALL, "occupancy": 0.98}), "I/O", "small"),
        (measures(BESIDE, cores_used=3.6), "CPU", "work"),
        (measures(IN_TURNS, cores_used=1.0), "GIL", "work"),
        # Other stages compute without it meanwhile.
        (measures(IN_TURNS, {**BESIDE, "name": "read", "occupancy": 0.5}, cores_used=2.8), "GIL", "work"),
        # One slot is no sign of it.
        (
            measures({"concurrency": 1, "cpu": 0.8, "waits_for_thread": 0.2, "waits": 0.0}, cores_used=2.8),
            "CPU",
            "work",
        ),
        # Threads that wait for the GIL do so between ops, too.
        (measures({**IN_TURNS, "occupancy": 0.5}, cores_used=1.0), "GIL", "work"),
        # They compute beside each other, though some wait for each other now and then.
        (measures({**BESIDE, "waits_for_thread": 0.2}, cores_used=3.2), "CPU", "work"),
        # A lock of their own, which its holder sleeps with, or computes with.
        (measures(AT_A_LOCK, cores_used=0.1), "lock", "work"),
        (measures({**IN_TURNS, "alone": 0.9, "sleeps": 30.0}, cores_used=1.0), "lock", "work"),
        (measures({**AT_A_LOCK, "occupancy": 0.5}, num_threads=4), "lock", "work"),
        # Other programs have the cores: it may be one, and more slots are no remedy for that.
        (
            measures({**IN_TURNS, "cpu": 0.1, "runs": 0.2, "alone": 0.9}, cores_used=0.4, cores_waited_for=1.2),
            "unclear",
            "work",
        ),
        # Who waits for the GIL asks for it 200 times a second.
        (measures({**IN_TURNS, "alone": 0.9, "sleeps": 110.0}, cores_used=1.0), "GIL", "work"),
        # Something that other threads make.
        (measures({**AT_A_LOCK, "waits_for_thread": 0.98, "waits": 0.0, "alone": 0.1}), "I/O", "work"),
        (measures({**AT_A_LOCK, "waits_for_thread": 0.3, "waits": 0.68, "alone": 0.1}), "I/O", "work"),
        # Without a GIL nobody can wait for it.
        (measures({**IN_TURNS, "cpu": 0.7}, cores_used=1.0, gil=False), "CPU", "work"),
        (measures({"runs": 0.1, "waits_for_thread": 0.9, "waits": 0.0}, **CROWDED), "oversubscription", "work"),
        (measures({"name": "transfer"}), "transfer", "transfer"),
        (measures({"op": "transfer_buffer"}), "transfer", "work"),
        (measures({"gathers": True, "occupancy": 0.0}, {"name": "join", "concurrency": 1}), "batching", "join"),
        (measures({"name": "collate"}), "batching", "collate"),
        (measures({"occupancy": 0.3, "held": 0.7}), "held back by order", "work"),
        (measures({"failing": 0.6, "occupancy": 0.8, "rate": 20.0}), "retries", "work"),
        (measures(SMALL, sources=(SourceWindow("src", 0.99, 100.0, 0.0),)), "serial source", "src"),
        (measures({"occupancy": 0.4}, consumer_waits=0.01, sink_fill=1.0), "slow consumer", ""),
        (measures({"rate": 0.0, "oldest": 60.0}, **STUCK), "hang", "work"),
        # It takes long, but no longer than others did.
        (measures({"rate": 0.0, "oldest": 60.0, "seconds": 50.0}, **STUCK), "I/O", "work"),
        (measures({**SMALL, "rate": 0.0}, sources=BLOCKING, **STUCK), "hang", "src"),
        # Something moves still.
        (measures(SMALL, sources=BLOCKING, **STUCK), "serial source", "src"),
        (measures({"occupancy": 0.5}, num_threads=2, busy_threads=2.0), "I/O", "work"),
        (measures({"occupancy": 0.5}), "none", ""),
        (measures({"occupancy": 0.25}, SMALL, **SHORT), "memory budget", "work"),
        (measures({**SMALL, "occupancy": 0.3}, {"occupancy": 0.25}, **SHORT), "memory budget", "small"),
        # What is in use all the time is the limit, whatever is short.
        (measures({}, SMALL, **SHORT), "I/O", "work"),
        (measures(SMALL, sources=(SourceWindow("src", 0.99, 100.0, 0.0),), **SHORT), "serial source", "src"),
        # Few bytes are short now and then.
        (measures({"occupancy": 0.25}, **{**SHORT, "short_of_bytes": 0.2}), "none", ""),
        (measures({"occupancy": 0.25}, **{**SHORT, "max_bytes": 0}), "none", ""),
        # The items that the loop has not read yet take the bytes.
        (measures({"occupancy": 0.25}, **SHORT, consumer_waits=0.01, sink_fill=0.5), "slow consumer", ""),
    ],
)
def test_the_kind_and_the_stage(given: Window, kind: str, stage: str) -> None:
    verdict = decide(given)
    assert kind in KINDS
    assert (verdict.kind, verdict.stage) == (kind, stage), verdict.sentence()


def test_the_gain_is_what_the_next_limit_allows() -> None:
    verdict = decide(measures({}, {**SMALL, "occupancy": 0.5}))
    assert verdict.bound == pytest.approx(2.0)
    # Enough slots for that, and not many more; threads for them and for what the other stage runs then.
    assert 8 <= verdict.settings["concurrency"] <= 11
    assert verdict.settings["num_threads"] == verdict.settings["concurrency"] + 4


def test_the_consumer_is_a_limit_as_well() -> None:
    assert decide(measures(consumer_waits=0.5)).bound == pytest.approx(2.0)


def test_and_so_are_the_cores() -> None:
    assert decide(measures(cores_used=4.0, consumer_waits=1.0, sources=())).bound == pytest.approx(2.0)


# One slot that computes on one of eight cores, and four that take turns.
ALONE = {"concurrency": 1, "cpu": 1.0, "runs": 1.0, "waits": 0.0}
FOUR_IN_TURNS: dict[str, Any] = {"cores_used": 1.0, "cores": 4.0}


@pytest.mark.parametrize(
    ("idle", "gain"),
    [
        (7.0, 7.4),
        (math.inf, 7.4),
        # 6 idle ones and the one that it has are nearly as many as it would use.
        (6.0, (1.08 + 6) / 1.08),
        # With half of the cores it is not.
        (3.0, None),
        (0.0, None),
    ],
)
def test_no_gain_is_promised_of_cores_that_others_use(idle: float, gain: float | None) -> None:
    verdict = decide(measures(ALONE, cores_used=1.08, consumer_waits=1.0, sources=(), cores_idle=idle))
    assert (verdict.kind, verdict.settings["concurrency"]) == ("CPU", 8)
    assert verdict.bound == (None if gain is None else pytest.approx(gain, rel=0.01))
    assert ("other programs use them" in verdict.evidence) is (gain is None)


@pytest.mark.parametrize(("idle", "gain"), [(3.0, 3.9), (2.5, 3.5), (1.0, None)])
def test_nor_is_one_of_processes(idle: float, gain: float | None) -> None:
    changes = FOUR_IN_TURNS | {"consumer_waits": 1.0, "sources": (), "cores_idle": idle}
    verdict = decide(measures(IN_TURNS, **changes))
    assert (verdict.kind, verdict.settings["processes"]) == ("GIL", 4)
    assert verdict.bound == (None if gain is None else pytest.approx(gain, rel=0.02))


def test_nor_of_threads_where_all_are_in_ops() -> None:
    stage = {"cpu": 0.9, "runs": 0.9, "waits": 0.1, "occupancy": 0.5}
    given = measures(stage, num_threads=2, busy_threads=2.0, cores_used=1.8, consumer_waits=1.0, sources=())
    assert decide(given).bound is not None
    assert decide(dataclasses.replace(given, cores_idle=0.0)).bound is None


def test_a_gain_that_needs_no_more_cores_is_promised_all_the_same() -> None:
    assert decide(measures({}, {**SMALL, "occupancy": 0.5}, cores_idle=0.0)).bound == pytest.approx(2.0)


def test_no_more_slots_are_proposed_where_they_would_wait_for_the_gil() -> None:
    # Four ops compute on 2.8 of 8 cores, as each waits for the others for 30 % of its time.
    partly = {"cpu": 0.7, "runs": 0.7, "waits_for_thread": 0.3, "waits": 0.0}
    verdict = decide(measures(partly, cores_used=2.8))
    assert (verdict.kind, verdict.settings, verdict.bound) == ("CPU", {}, None)
    assert "Its threads wait for each other 30 % of their time" in verdict.evidence
    assert "`spdl profile` says whether they do" in verdict.remedy
    # They hardly do, or there is no GIL, or they run elsewhere.
    for changes, gil in (({"waits_for_thread": 0.005}, True), ({}, False)):
        other = decide(measures(partly | changes, cores_used=2.8, gil=gil))
        assert other.kind == "CPU"
        assert other.bound is not None


@pytest.mark.parametrize(
    ("waits", "says"),
    [
        # Measured beside programs that compute, on two cores: ops in Python, ops that are half of it, and hashes, which
        # release the GIL: 10 to 23 %. So nothing is said for sure.
        (0.33, "some of them may hold the GIL"),
        (0.1, "some of them may hold the GIL"),
        (0.01, "Compute less for each item"),
    ],
)
def test_the_gil_is_in_question_while_cores_are_short(waits: float, says: str) -> None:
    stage = {"concurrency": 2, "cpu": 0.27, "runs": 1 - waits, "waits_for_thread": waits, "waits": 0.0}
    verdict = decide(measures(stage, cores=2.0, cores_used=0.54, cores_waited_for=1.04, cores_idle=0.0))
    assert verdict.kind == "CPU"
    assert says in verdict.sentence()
    assert verdict.bound in (None, 1.0)


@pytest.mark.parametrize("waits", [0.09, 0.35, 0.5])
def test_four_threads_that_lack_cores_wait_for_each_other_whatever_they_hold(waits: float) -> None:
    stage = {"cpu": 0.11, "runs": 1 - waits, "waits_for_thread": waits, "waits": 0.0}
    verdict = decide(measures(stage, cores=2.0, cores_used=0.5, cores_waited_for=3.2, cores_idle=0.0))
    assert verdict.kind == "CPU"
    assert "Other programs have the cores" in verdict.sentence()


def test_short_ops_that_never_run_at_once_though_threads_are_there_hold_the_gil() -> None:
    # Four threads are in the slots of ops that take 1.58 ms, of which 630 end in a second: one runs at a time.
    stage = {"cpu": 1.0, "runs": 0.95, "waits_for_thread": 0.03, "waits": 0.0, "seconds": 0.00158, "rate": 630.0}
    free: dict[str, Any] = {"cores": 2.0, "cores_used": 1.0, "cores_waited_for": 0.2, "cores_idle": 0.8}
    verdict = decide(measures(stage, **free))
    assert verdict.kind == "GIL"
    assert "but hardly any two of its ops ever run at once, and the process uses 1.0 of 2 cores" in verdict.evidence
    # Where other programs have the cores, no two run at once for want of one, whether they hold the GIL or not.
    short = {**free, "cores_waited_for": 2.7, "cores_idle": 0.0}
    assert decide(measures(stage, **short)).kind == "CPU"
    for waits in (0.03, 0.16):
        given = {**stage, "cpu": 0.27, "seconds": 0.0049, "rate": 750.0, "waits_for_thread": waits}
        assert decide(measures(given, **short)).kind == "CPU"


def test_a_gain_is_never_a_loss() -> None:
    for given in (measures(consumer_waits=0.0), measures({}, {"name": "other"}), measures(cores_used=16.0)):
        gain = decide(given).bound
        assert gain is not None
        assert gain >= 1


def test_bytes_are_recommended_for_what_the_next_limit_allows() -> None:
    verdict = decide(measures({"occupancy": 0.25}, {**SMALL, "occupancy": 0.1}, **SHORT))
    assert verdict.bound == pytest.approx(4.0)
    assert 16_000_000 < verdict.settings["max_bytes"] <= 20_000_000
    assert "90 % of the time another item might not have fitted into the 4,000,000 bytes" in verdict.sentence()
    assert f"`max_bytes={verdict.settings['max_bytes']:_}`" in verdict.remedy
    # The next limit is another stage, and the items are larger than what is allowed.
    verdict = decide(measures({"occupancy": 0.25}, {**SMALL, "occupancy": 0.5}, **{**SHORT, "peak_bytes": 10_000_000}))
    assert verdict.bound == pytest.approx(2.0)
    assert 20_000_000 < verdict.settings["max_bytes"] <= 25_000_000


def test_a_source_alone_may_be_short_of_bytes() -> None:
    source = SourceWindow("files", busy=0.5, rate=100.0, oldest=0.0)
    verdict = decide(dataclasses.replace(PIPELINE, stages=(), sources=(source,), **SHORT))
    assert (verdict.kind, verdict.stage) == ("memory budget", "files")
    assert verdict.bound == pytest.approx(2.0)


def test_a_slow_consumer_is_told_that_its_items_take_the_bytes() -> None:
    given = measures({"occupancy": 0.25}, **SHORT, consumer_waits=0.0, sink_size=3, sink_capacity=40, sink_fill=0.07)
    assert "3 of 40 places hold finished items, and `max_bytes` leaves room for no more." in decide(given).evidence
    # Nothing lies there: the loop finds nothing, and does not wait either.
    assert decide(dataclasses.replace(given, sink_fill=0.0)).kind == "memory budget"


def test_it_reads_as_a_sentence() -> None:
    said = decide(measures({}, {**SMALL, "occupancy": 0.5})).sentence()
    assert said.startswith("I/O. 'work': Its 4 slots are in use 100 % of the time, and compute for 0 % of it")
    assert said.endswith("At most 2.00x as fast.")
    assert Verdict("I/O", "work", "Waits.", "`a=2`.", {"a": 2}, 1.004).sentence().endswith("it makes nothing faster.")
    assert Verdict("I/O", "work", "Waits.", "`a=2`.", {"a": 2}).sentence().endswith("`a=2`.")


class TestWhereTheSlotsDoNotSayIt:
    def test_coroutines_that_do_not_end_hang(self) -> None:
        stage = {"served_by": "loop", "occupancy": 1.0, "rate": 0.0, "seconds": 0.002, "oldest": 0.0}
        still: dict[str, Any] = {"delivered": 0.0, "consumer_waits": 1.0}
        verdict = decide(measures(stage, consumer_waits_for=4.0, **still))
        assert (verdict.kind, verdict.stage) == ("hang", "work")
        assert "4.0 s" in verdict.evidence
        # Not yet, and not where one takes as long.
        assert decide(measures(stage, consumer_waits_for=1.0, **still)).kind == "I/O"
        assert decide(measures({**stage, "seconds": 3.0}, consumer_waits_for=4.0, **still)).kind == "I/O"

    def test_an_executor_with_too_few_workers_is_given_more(self) -> None:
        verdict = decide(measures({"served_by": "executor", "pool": 2, "concurrency": 6}, SMALL))
        assert (verdict.kind, verdict.settings) == ("I/O", {"max_workers": 26, "concurrency": 26})
        assert verdict.bound == pytest.approx(10)
        assert "The 2 workers of its executor" in verdict.evidence

    def test_of_an_executor_that_is_in_use_no_gain_is_foretold(self) -> None:
        verdict = decide(measures({"served_by": "executor"}, SMALL))
        assert (verdict.kind, verdict.bound) == ("I/O", None)
        assert "no more of both than there are cores (8)" in verdict.remedy

    def test_the_stage_that_holds_the_gil_is_named_and_not_the_one_that_waits_for_it(self) -> None:
        holds = {"name": "parse", "concurrency": 1, "cpu": 0.9, "runs": 0.9, "waits_for_thread": 0.1, "waits": 0.0}
        waits = {"name": "ask", "concurrency": 1, "cpu": 0.02, "runs": 0.1, "waits_for_thread": 0.8, "waits": 0.1}
        verdict = decide(measures(holds, waits, cores_used=1.0))
        assert (verdict.kind, verdict.stage) == ("GIL", "parse"), verdict.sentence()
        assert "threads in ops of 'ask' wait for another one 80 % of their time" in verdict.evidence
        assert verdict.settings == {"processes": 8, "concurrency": 1}
        assert verdict.bound == pytest.approx(5.0)

    def test_as_many_ops_run_in_processes_as_in_threads(self) -> None:
        # A stage in a region has its slots in each process.
        verdict = decide(measures({**IN_TURNS, "concurrency": 12}, cores=8.0, cores_used=1.0))
        assert verdict.settings == {"processes": 8, "concurrency": 2}
        assert "and `concurrency=2`, which counts for each process" in verdict.remedy

    def test_taking_items_into_processes_costs_cpu_time(self) -> None:
        changes: dict[str, Any] = {"cores": 2.0, "cores_used": 1.0, "sources": ()}
        # 5,000 items per second take 0.75 of a core more.
        quick = decide(measures({**IN_TURNS, "rate": 5_000.0, "seconds": 2e-4}, **changes))
        assert quick.kind == "GIL"
        assert quick.bound == pytest.approx(2.0 / 1.75)
        # Ops that are over before their item has crossed are not worth a process.
        tiny = decide(measures({**IN_TURNS, "rate": 50_000.0, "seconds": 2e-5}, **changes))
        assert (tiny.kind, tiny.bound, tiny.settings) == ("GIL", None, {})
        assert "Call it once for many items" in tiny.remedy

    def test_nothing_is_said_of_ops_of_which_none_has_ended(self) -> None:
        first = {"rate": 0.0, "seconds": 0.0, "oldest": 1.5}
        verdict = decide(measures(first, {**SMALL, "occupancy": 0.0, "rate": 0.0, "oldest": 0.0}, **STUCK))
        assert (verdict.kind, verdict.stage, verdict.bound) == ("none", "work", None)
        assert "Its first op has run for 1.5 s, and none has ended yet." in verdict.evidence
        assert "for 60.0 s, none has ended yet" in decide(measures({**first, "oldest": 60.0}, **STUCK)).evidence

    def test_ops_that_all_fail_are_to_be_repaired_first(self) -> None:
        verdict = decide(measures({"seconds": 0.0, "lost": 1.0}, **STUCK))
        assert verdict.bound is None
        assert "no op of it has succeeded" in verdict.evidence
        assert "'work' fails on 100 % of its items" in verdict.evidence

    def test_nothing_is_foretold_of_what_gives_all_items_up(self) -> None:
        verdict = decide(measures({}, {**SMALL, "lost": 1.0}, delivered=0.0, consumer_waits=1.0))
        assert (verdict.bound, verdict.settings) == (None, {})
        assert "Repair 'small' first" in verdict.remedy
        assert decide(measures({}, {**SMALL, "lost": 0.9})).bound is not None

    def test_an_op_that_does_not_end_is_told_though_others_do(self) -> None:
        verdict = decide(measures({"oldest": 5.0}))
        assert verdict.kind == "I/O"
        assert "An op of 'work' has run for 5.0 s, where one takes 40 ms otherwise" in verdict.evidence
        assert "An op of" not in decide(measures({"oldest": 1.0})).evidence

    def test_few_items_do_not_tell_what_is_gained_without_retries(self) -> None:
        failing = {"failing": 0.6, "occupancy": 0.8, "rate": 20.0}
        assert decide(measures(failing)).bound is not None
        assert decide(measures({**failing, "rate": 5.0})).bound is None

    def test_what_gathers_a_batch_is_called_for_each_item(self) -> None:
        assert "40 ms for each item." in decide(measures({"gathers": True, "concurrency": 1})).evidence
        assert "40 ms for each batch." in decide(measures({"name": "collate"})).evidence

    def test_threads_that_all_make_batches(self) -> None:
        busy = {"name": "collate", "occupancy": 0.6, "concurrency": 8}
        verdict = decide(measures({"occupancy": 0.4, "concurrency": 8}, busy, busy_threads=8.0))
        assert (verdict.kind, verdict.stage, verdict.settings) == ("batching", "collate", {"num_threads": 16})

    def test_the_number_of_threads_to_set_is_the_one_that_the_remedy_says(self) -> None:
        stages = [{**BESIDE, "occupancy": 0.6, "concurrency": 8}, {"occupancy": 0.4, "concurrency": 8}]
        computing = decide(measures(*stages, busy_threads=8.0, cores=12.0, cores_used=6.0))
        assert (computing.kind, computing.settings) == ("CPU", {"num_threads": 12})
        assert "`num_threads=12`" in computing.remedy
        assert computing.bound == pytest.approx(1.5)
        # More of them gain nothing.
        stages = [{**IN_TURNS, "occupancy": 0.6, "concurrency": 8}] * 2
        turns = decide(measures(*stages, busy_threads=8.0, cores_used=1.0))
        assert (turns.kind, turns.settings, turns.bound) == ("GIL", {}, 1.0)

    def test_short_ops_that_never_run_beside_each_other_hold_the_gil(self) -> None:
        stage = {"occupancy": 0.49, "concurrency": 2, "cpu": 0.82, "runs": 0.96, "waits_for_thread": 0.04, "waits": 0.0}
        changes: dict[str, Any] = {"busy_threads": 1.5, "cores_used": 0.9, "cores": 2.0}
        assert decide(measures(stage, **changes)).kind == "GIL"
        assert decide(measures(stage, **changes, gil=False)).kind == "none"
        # Nobody waits to run beside it.
        assert decide(measures(stage, **{**changes, "busy_threads": 1.0})).kind == "none"

    def test_ops_that_would_compute_if_others_had_not_the_cores(self) -> None:
        stage = {"cpu": 0.21, "runs": 0.9, "waits_for_thread": 0.08, "waits": 0.02}
        verdict = decide(measures(stage, cores=2.0, cores_used=0.86, cores_waited_for=3.0))
        assert (verdict.kind, verdict.stage) == ("CPU", "work")
        assert "Other programs have the cores: 3.0 of its threads wait for one." in verdict.evidence
        alone = decide(measures({**stage, "cpu": 0.5}, cores=2.0, cores_used=1.9, cores_waited_for=2.0))
        assert "Other programs" not in alone.evidence


# Ops in two processes of an executor, and those of a region with two processes that have two slots each.
POOL = {"served_by": "executor", "processes": 2, "concurrency": 2, "waits": 0.0}
REGION = {"processes": 2, "copies": 2, "waits": 0.0}


class TestOtherProcesses:
    def test_items_that_are_on_their_way_for_longer_than_they_are_worked_on(self) -> None:
        # A slot is in use for 100 ms, of which the op takes 30.
        stage = {**POOL, "rate": 20.0, "seconds": 0.03, "cpu": 0.9}
        verdict = decide(measures(stage, cores_used=0.9))
        assert (verdict.kind, verdict.stage, verdict.bound, verdict.settings) == ("pickling", "work", None, {})
        assert "100 ms for each item, but the op takes only 30 ms in its process" in verdict.evidence
        # They wait for a process there, and not for this one.
        assert decide(measures({**stage, "concurrency": 6, "rate": 60.0}, cores_used=0.9)).kind == "CPU"
        # Nothing is pickled: they lie in the executor, behind those of another stage.
        assert decide(measures(stage, cores_used=0.2)).kind != "pickling"
        # Other programs have the cores on which it would.
        assert decide(measures(stage, cores_used=0.2, cores_waited_for=1.3)).kind == "pickling"
        assert decide(measures({**stage, "rate": 60.0}, cores_used=0.9)).kind == "CPU"
        # Where an op takes its time and how long is known of processes only.
        assert decide(measures({**stage, "processes": 0}, cores_used=0.9)).kind != "pickling"

    def test_how_long_items_are_on_their_way_is_told_also_where_ops_take_longer(self) -> None:
        # Of the 100 ms in a slot.
        stage = {**POOL, "rate": 20.0, "cpu": 0.9}
        said = "Pickling it and its result, and waiting for that, takes 40 ms more."
        assert said in decide(measures({**stage, "seconds": 0.06}, cores_used=0.9)).evidence
        assert "ickling" not in decide(measures({**stage, "seconds": 0.09}, cores_used=0.9)).evidence

    def test_ops_in_processes_beside_other_programs_may_wait_for_a_core(self) -> None:
        stage = {**POOL, "rate": 20.0, "seconds": 0.06}
        changes: dict[str, Any] = {"cores_used": 0.1, "cores_waited_for": 0.6}
        verdict = decide(measures({**stage, "cpu": 0.2}, **changes))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("unclear", {}, None)
        assert "they wait for a disk, a lock or a core, 60 ms for each item. Pickling it" in verdict.evidence
        # The stacks of other processes are not shown.
        assert verdict.remedy == "Ask again when other programs leave it the cores."
        # What hardly computes waits for no core.
        assert decide(measures({**stage, "cpu": 0.01}, **changes)).kind == "I/O"

    def test_the_thread_that_takes_results_out_of_a_region_may_be_the_limit(self) -> None:
        stage = {**REGION, "occupancy": 0.1}
        verdict = decide(measures(stage, region="region(work)", region_cores=0.9))
        assert "The thread that takes the results out of the region's processes is busy 90 %" in verdict.evidence
        # Without a thread for it, the loop does.
        loop = decide(measures(stage, region="DataLoader", region_cores=0.8, in_turns=True))
        assert "The loop is busy 80 % of the time with unpickling what processes have made" in loop.evidence
        assert (verdict.kind, verdict.stage) == ("pickling", "region(work)")
        assert "is busy 90 % of the time" in verdict.evidence
        assert decide(measures(stage, region="region(work)", region_cores=0.3)).kind == "none"
        # The consumer finds all that it wants, and that thread has something to do all the time: both want the GIL.
        full: dict[str, Any] = {"consumer_waits": 0.0, "sink_fill": 1.0}
        assert decide(measures(stage, region="region(work)", region_cores=0.9, **full)).kind == "pickling"
        assert decide(measures(stage, region="region(work)", region_cores=0.4, **full)).kind == "slow consumer"

    @pytest.mark.parametrize(
        ("stage", "settings"),
        [(POOL, {"max_workers": 4, "concurrency": 4}), ({**REGION, "concurrency": 2}, {"max_workers": 4})],
    )
    def test_processes_that_compute_take_cores_as_well(self, stage: dict[str, Any], settings: dict[str, int]) -> None:
        computing = {**stage, "rate": 50.0, "seconds": 0.04, "cpu": 1.0}
        changes: dict[str, Any] = {"cores_used": 0.1, "sources": (), "consumer_waits": 1.0}
        all_used = decide(measures(computing, cores=2.0, **changes))
        assert (all_used.kind, all_used.settings, all_used.bound) == ("CPU", {}, 1.0)
        # There are no more, though each was measured by itself.
        assert "The program and its 2 workers use 2.0 of 2 cores." in all_used.evidence
        free = decide(measures(computing, cores=4.0, **changes))
        assert (free.kind, free.settings) == ("CPU", settings)
        assert free.bound == pytest.approx(4 / 2.1)

    def test_ops_that_wait_in_a_region_get_slots_in_each_worker(self) -> None:
        verdict = decide(measures({**REGION, "concurrency": 4}, consumer_waits=0.5))
        assert (verdict.kind, verdict.settings) == ("I/O", {"concurrency": 6})
        assert "which counts for each of the region's 2 workers" in verdict.remedy
        assert verdict.bound == pytest.approx(2.0)

    def test_ops_that_wait_need_no_processes(self) -> None:
        verdict = decide(measures({**POOL, "rate": 50.0}, consumer_waits=0.5))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("I/O", {"concurrency": 6}, None)
        assert "without `executor`" in verdict.remedy


class TestWhatIsGone:
    ENDING = Ending("killed", seconds=12.34, delivered=1234, at_work=(("work", 3), ("small", 1)))

    def test_what_was_seen_last_is_told_beside_the_verdict(self) -> None:
        verdict = decide(measures(ending=self.ENDING))
        assert verdict.kind == "unclear"
        assert "The process was killed" in verdict.evidence
        last = "12.3 s later: the loop had taken 1,234 items, and 'work' (3), 'small' (1) was at work."
        assert last in verdict.evidence
        # Threads that waited for each other are not told from others any more.
        assert "they wait for I/O, or for another thread's lock" in verdict.evidence
        assert verdict.bound is None

    def test_nobody_is_asked_to_watch_it(self) -> None:
        nothing = {"rate": 0.0, "seconds": 0.0, "occupancy": 0.0}
        for stage, changes in (({"occupancy": 0.5}, {}), (nothing, STUCK), ({"seconds": 0.0}, STUCK)):
            running, killed = measures(stage, **changes), measures(stage, ending=self.ENDING, **changes)
            assert "Watch for longer" in decide(running).remedy
            said = decide(killed).sentence()
            assert "Watch for longer" not in said, said
            assert "start it again, and watch it while it runs" in said, said

    def test_a_pipeline_that_has_ended_may_have_one_that_follows(self) -> None:
        ended = dataclasses.replace(self.ENDING, state="ended", at_work=())
        verdict = decide(dataclasses.replace(measures({"occupancy": 0.5}), ending=ended))
        assert "The pipeline has ended" in verdict.evidence
        assert "nothing was at work" in verdict.evidence
        assert "watch the next one while it runs" in verdict.remedy

    @pytest.mark.parametrize(
        ("oldest", "usual", "kind", "stage"),
        [
            ((("src", 90.0), ("work", 80.0)), 0.04, "hang", "work"),
            ((("src", 90.0), ("work", 1.9)), 0.04, "hang", "src"),
            ((("work", 80.0),), 0.0, "hang", "work"),
            # Its ops take as long as that.
            ((("work", 80.0),), 8.1, "unclear", "work"),
            ((("work", 1.9),), 0.04, "unclear", "work"),
            ((), 0.04, "unclear", "work"),
        ],
    )
    def test_a_call_that_had_run_for_far_longer_than_others_hung(
        self, oldest: tuple[tuple[str, float], ...], usual: float, kind: str, stage: str
    ) -> None:
        ending = dataclasses.replace(self.ENDING, oldest=oldest)
        verdict = decide(measures({"seconds": usual}, ending=ending))
        assert (verdict.kind, verdict.stage) == (kind, stage), verdict.sentence()
        assert "The process was killed" in verdict.evidence


def test_what_is_unclear_of_a_running_program_is_seen_in_its_stacks() -> None:
    starved = {**IN_TURNS, "cpu": 0.1, "runs": 0.2, "alone": 0.9}
    verdict = decide(measures(starved, cores_used=0.4, cores_waited_for=1.2))
    assert verdict.remedy.startswith("`spdl stack` shows the line that each of them waits in, such as one that takes a")
    # Watching for longer tells no more.
    assert verdict.remedy.endswith(" Ask again when other programs leave it the cores.")
    gone = decide(measures(starved, cores_used=0.4, cores_waited_for=1.2, ending=TestWhatIsGone.ENDING))
    assert "`spdl stack`" not in gone.remedy


class TestThreadsThatRead:
    """An op waits for threads that read from a server for it, as those of `load_image_batch` do."""

    def test_it_is_the_server_that_is_waited_for(self) -> None:
        verdict = decide(measures(READS, SMALL, cores_used=0.2, cores_used_by_others=0.15))
        assert (verdict.kind, verdict.stage, verdict.bound) == ("I/O", "work", None)
        assert verdict.settings["concurrency"] > 2
        assert "It reads 3 MiB a second from stores on other machines." in verdict.evidence

    def test_a_lock_that_they_take_turns_at_is_named_as_elsewhere(self) -> None:
        assert decide(measures({**READS, "alone": 0.9}, cores_used=0.2)).kind == "lock"

    def test_threads_that_compute_for_it_are_the_limit_as_elsewhere(self) -> None:
        verdict = decide(measures(READS, cores_used=7.9, cores_used_by_others=7.8))
        assert (verdict.kind, verdict.bound) == ("CPU", 1.0)

    def test_beside_other_programs_it_may_be_something_else(self) -> None:
        changes: dict[str, Any] = {"cores": 2.0, "cores_used": 0.2, "cores_used_by_others": 0.1}
        given = {**READS, "runs": 0.35, "waits_for_thread": 0.65}
        verdict = decide(measures(given, cores_waited_for=2.5, **changes))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("unclear", {}, None)
        assert "they wait for a server, a lock, the GIL or a core" in verdict.evidence
        assert "the threads that read" in verdict.remedy


class TestShortOfCores:
    """Other programs have the cores, and no stage is in use all the time."""

    STAGES = (
        {**IN_TURNS, "name": "decode", "occupancy": 0.6, "cpu": 0.06},
        {**IN_TURNS, "name": "gamma", "occupancy": 0.5, "cpu": 0.25},
    )

    def test_the_stage_that_computes_most_is_named(self) -> None:
        verdict = decide(measures(*self.STAGES, **CROWDED_OUT))
        assert (verdict.kind, verdict.stage, verdict.settings, verdict.bound) == ("CPU", "gamma", {}, None)
        assert "Other programs have the cores: 1.7 of its threads wait for one." in verdict.evidence
        assert "some of them may hold the GIL" in verdict.evidence
        assert "`spdl profile` says whether they do" in verdict.remedy

    def test_nothing_is_said_of_the_gil_where_threads_do_not_wait_for_each_other(self) -> None:
        verdict = decide(measures({**BESIDE, "cpu": 0.2, "waits": 0.0, "occupancy": 0.6}, **CROWDED_OUT))
        assert (verdict.kind, verdict.stage, verdict.bound) == ("CPU", "work", 1.0)
        assert "GIL" not in verdict.sentence()

    def test_it_takes_a_loop_that_waits_and_ops_that_compute(self) -> None:
        assert decide(measures(*self.STAGES, **{**CROWDED_OUT, "consumer_waits": 0.02})).kind == "none"
        idle = decide(measures({"occupancy": 0.5}, **CROWDED_OUT))
        assert idle.kind == "none"
        assert idle.remedy.startswith("Ask again when other programs leave it the cores.")


class TestWithoutLooks:
    """Counters alone do not tell what ops wait for, as `Pipeline.statistics` has them."""

    def test_ops_that_wait_while_others_compute_may_wait_for_anything(self) -> None:
        seen = {"runs": 0.0, "waits": 0.0}
        verdict = decide(measures({"cpu": 0.25, **seen}, looked=False))
        assert (verdict.kind, verdict.stage, verdict.bound, verdict.settings) == ("unclear", "work", None, {})
        assert "they wait for a disk, a lock, the GIL or a core" in verdict.evidence
        assert "`spdl why PID`" in verdict.remedy
        assert "`spdl stack`" not in verdict.remedy
        assert "the GIL" not in decide(measures({"cpu": 0.25, **seen}, looked=False, gil=False)).evidence
        # Another stage may hold what they wait for.
        busy = {"name": "parse", "cpu": 1.0, "occupancy": 0.8, "concurrency": 1, **seen}
        assert decide(measures(busy, {"cpu": 0.05, **seen}, looked=False)).kind == "unclear"

    def test_ops_that_hardly_compute_wait_for_no_core(self) -> None:
        known = {"cpu": 0.01, "runs": 0.0, "waits": 0.0}
        verdict = decide(measures(known, looked=False))
        assert verdict.kind == "unclear"
        assert "they wait for I/O, or for another thread's lock, 40 ms for each item" in verdict.evidence
        assert verdict.settings["concurrency"] > 4
        assert "`spdl why PID` looks at the threads, and says more. If it is I/O: `concurrency=" in verdict.remedy
        assert verdict.bound is None
        waits = decide(measures({**known, "glimpsed": "I/O"}, looked=False))
        assert (waits.kind, waits.settings, waits.bound is None) == ("I/O", verdict.settings, False)
        turns = decide(measures({**known, "glimpsed": "lock"}, looked=False))
        assert (turns.kind, turns.settings, turns.bound) == ("lock", {}, None)
        assert "saw all but one wait for another thread" in turns.evidence
        others = decide(measures({**known, "glimpsed": "threads"}, looked=False))
        assert others.kind == "unclear"
        assert "they wait for other threads, at a lock or for their results, 40 ms for each" in others.evidence
        alone = decide(measures({"cpu": 0.01, "concurrency": 1}, looked=False))
        assert (alone.kind, alone.bound is None) == ("I/O", False)

    @pytest.mark.parametrize(("looked", "kind"), [(True, "none"), (False, "unclear")])
    def test_the_beginning_of_its_life_is_left_out(self, looked: bool, kind: str) -> None:  # noqa: FBT001
        assert decide(measures({"occupancy": 0.82}, looked=looked)).kind == kind

    def test_coroutines_wait_for_no_gil(self) -> None:
        given = measures({"cpu": 0.0, "served_by": "loop"}, {**SMALL, "cpu": 1.0, "occupancy": 0.8}, looked=False)
        assert decide(given).kind == "I/O"

    def test_a_loop_that_takes_all_there_is_in_the_end_was_slow(self) -> None:
        given = measures({"occupancy": 0.2}, consumer_waits=0.01, sink_fill=0.9, sink_size=0, looked=False)
        verdict = decide(given)
        assert verdict.kind == "slow consumer"
        assert "4 of 4 places hold finished items" in verdict.evidence


class TestThreadsOfTheOpsOwn:
    """An op waits for a pool of its own, whose threads are not the pipeline's."""

    def test_they_may_wait_as_well(self) -> None:
        verdict = decide(measures(FOR_A_POOL, cores_used=0.1, cores_used_by_others=0.05))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("I/O", {}, None)
        assert "The work of the other threads is not seen." in verdict.evidence

    @pytest.mark.parametrize("slots", [1, 4])
    def test_they_compute_on_all_cores(self, slots: int) -> None:
        verdict = decide(measures({**FOR_A_POOL, "concurrency": slots}, cores_used=7.9, cores_used_by_others=7.8))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("CPU", {}, 1.0)
        assert "Threads that are not the pipeline's use 7.8 cores." in verdict.evidence

    def test_they_compute_though_other_programs_have_the_cores(self) -> None:
        given = measures(FOR_A_POOL, cores=2.0, cores_used=0.4, cores_used_by_others=0.38, cores_waited_for=1.6)
        assert (decide(given).kind, decide(given).bound) == ("CPU", 1.0)
        # Those that want the cores may be the ops' own threads.
        assert decide(dataclasses.replace(given, cores_used_by_others=0.1)).kind == "unclear"

    @pytest.mark.parametrize("slots", [1, 4])
    def test_they_compute_while_cores_are_free(self, slots: int) -> None:
        given = {**FOR_A_POOL, "concurrency": slots}
        verdict = decide(measures(given, cores_used=2.1, cores_used_by_others=2.0))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("CPU", {}, None)
        assert "give it more workers" in verdict.remedy
        assert "hold the GIL" in verdict.remedy
        assert "GIL" not in decide(measures(given, cores_used=2.1, cores_used_by_others=2.0, gil=False)).sentence()

    def test_each_more_op_takes_as_many_cores(self) -> None:
        given = {**BESIDE, "concurrency": 1, "waits_for_thread": 0.0}
        alone = decide(measures(given, cores=16.0, cores_used=1.0))
        assert alone.settings["concurrency"] >= 16
        # Each op computes on four.
        verdict = decide(measures(given, cores=16.0, cores_used=4.0, cores_used_by_others=3.0))
        assert verdict.kind == "CPU"
        assert verdict.settings["concurrency"] == 4


def test_the_guide_lists_all_kinds_with_their_exit_statuses() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "my_loop_waits.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| [^|]+ \| [^|]+ \|$", guide, re.MULTILINE)
    assert {name: int(status) for status, name in rows} == KINDS
