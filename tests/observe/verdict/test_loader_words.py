"""Verdicts on the pipelines of ready-made loaders, decided from measures that are made up: their words and numbers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from tests.observe.verdict.test_verdict import (
    AT_A_LOCK,
    BESIDE,
    CROWDED,
    FOR_A_POOL,
    IN_TURNS,
    PIPELINE,
    SMALL,
    STAGE,
    STUCK,
    measures,
)

from spdl.observe import SourceWindow
from spdl.observe import verdict as decide
from spdl.pipeline._report.page import LoaderArguments, StageArguments

if TYPE_CHECKING:
    from spdl.observe import Verdict, Window

# What somebody can say only to the builder of a pipeline.
BUILDERS = ("concurrency", "slot", "pipe(", "aggregate", ".to(", "ProcessPoolExecutorConfig", "executor", "Pipeline.")

ANY = StageArguments(slot="thread", several="num_threads", value=4, order='output_order="completion"')
FOUR = StageArguments(unit="batch", several="num_threads", value=4, most=4, otherwise="Look up all at once.")
WORKERS = StageArguments(unit="batch", slot="worker", several="num_workers", value=4, processes='workers="process"')
FIXED = StageArguments(unit="batch", otherwise="Copy less.")


def loaded(arguments: StageArguments, *stages: dict[str, Any], **changes: Any) -> Window:
    """Return measures of a loader's pipeline: its only stage and those behind it, of which nothing may be changed."""
    known = (arguments, *(FIXED for _ in stages[1:]))
    loader = LoaderArguments("Loader", known, source="Do less there.", source_several="num_threads", idle="Ask sooner.")
    made = measures(*(stages or ({},)), **{"loader": loader, **changes})
    told = (
        dataclasses.replace(stage, arguments=about) for stage, about in zip(made.stages, loader.stages, strict=True)
    )
    return dataclasses.replace(made, stages=tuple(told))


def decided(given: Window) -> Verdict:
    verdict = decide(given)
    said = verdict.sentence()
    assert not [word for word in BUILDERS if word in said], said
    # What is to be set is written as it is written in a call.
    for name, value in verdict.settings.items():
        assert name == "threads_per_op" or f"`{name}={value}`" in said, said
    return verdict


class TestWithoutLooks:
    def test_the_remedy_for_io_is_an_argument(self) -> None:
        verdict = decided(loaded(ANY, {"cpu": 0.01, "runs": 0.0, "waits": 0.0}, looked=False))
        assert (verdict.kind, verdict.bound) == ("unclear", None)
        assert f"If it is I/O: Give Loader `num_threads={verdict.settings['num_threads']}`." in verdict.remedy


class TestThreadsOfTheFunctionsOwn:
    def test_they_compute(self) -> None:
        known = {"cores_used": 2.1, "cores_used_by_others": 2.0}
        assert "try a larger `num_threads`." in decided(loaded(ANY, FOR_A_POOL, **known)).remedy
        assert "Copy less." in decided(loaded(FIXED, FOR_A_POOL, **known)).remedy


class TestMoreAtOnce:
    def test_one_argument_sets_threads_and_what_they_work_on(self) -> None:
        verdict = decided(loaded(ANY, {}, {**SMALL, "occupancy": 0.5}))
        # Eleven for the stage itself, and some for the one behind it.
        assert verdict.settings == {"num_threads": 15}
        assert verdict.remedy == "Give Loader `num_threads=15`."
        assert verdict.bound == pytest.approx(2.0)

    def test_it_says_who_works_on_what(self) -> None:
        verdict = decided(loaded(WORKERS))
        assert verdict.evidence.startswith("Its 4 workers are in use 100 % of the time, and compute for 0 % of it")
        assert "they wait, 40 ms for each batch." in verdict.evidence
        assert verdict.settings.keys() == {"num_workers"}
        assert "Its only thread is in use" in decided(loaded(ANY, {"concurrency": 1})).evidence
        assert "and computes for 0 % of it: it waits," in decided(loaded(ANY, {"concurrency": 1})).evidence

    @pytest.mark.parametrize("threads", [1, 2, 3])
    def test_no_more_is_foretold_than_there_may_be_at_once(self, threads: int) -> None:
        given = loaded(dataclasses.replace(FOUR, value=threads), {"concurrency": threads}, consumer_waits=1.0)
        verdict = decided(given)
        assert verdict.settings == {"num_threads": 4}
        assert verdict.bound == pytest.approx(4 / threads)
        # Without the bound it would be more.
        unbounded = decided(loaded(dataclasses.replace(FOUR, value=threads, most=0), {"concurrency": threads}))
        assert unbounded.bound is not None
        assert unbounded.bound > 4 / threads

    def test_the_next_limit_may_come_before(self) -> None:
        given = loaded(dataclasses.replace(FOUR, value=1), {"concurrency": 1}, {**SMALL, "occupancy": 0.5})
        assert decided(given).bound == pytest.approx(2.0)

    def test_nobody_knows_what_is_gained_beyond(self) -> None:
        verdict = decided(loaded(FOUR))
        assert verdict.bound is None
        assert "works on 4 batches at once at most" in verdict.remedy
        assert "If it waits for files, `num_threads=8` of Loader reads more of them at once." in verdict.remedy
        assert verdict.remedy.endswith(FOUR.otherwise)

    def test_so_many_threads_are_not_doubled(self) -> None:
        verdict = decided(loaded(dataclasses.replace(FOUR, value=64)))
        assert (verdict.settings, verdict.bound) == ({}, None)
        assert "num_threads" not in verdict.remedy

    def test_where_nothing_sets_how_many_that_is_told(self) -> None:
        for served_by in ("threads", "executor"):
            verdict = decided(loaded(FIXED, {"served_by": served_by, "name": "transfer"}))
            assert (verdict.kind, verdict.remedy) == ("transfer", "Copy less.")
            assert (verdict.settings, verdict.bound) == ({}, None)
        gathers = decided(loaded(FIXED, {"gathers": True, "adjustable": False, "concurrency": 1}))
        assert (gathers.kind, gathers.remedy, gathers.bound) == ("batching", "Copy less.", None)

    def test_threads_that_all_work(self) -> None:
        given = loaded(ANY, {"occupancy": 0.6, "concurrency": 8}, {"occupancy": 0.4, "concurrency": 8})
        verdict = decided(dataclasses.replace(given, busy_threads=8.0))
        assert (verdict.kind, verdict.settings) == ("I/O", {"num_threads": 16})

    def test_a_note_comes_with_it(self) -> None:
        assert decided(loaded(dataclasses.replace(ANY, note="Watch again."))).remedy.endswith("`. Watch again.")

    def test_ops_of_which_none_has_succeeded_have_no_remedy_yet(self) -> None:
        assert (
            "Repair 'work' first: nothing comes out of it."
            in decided(loaded(ANY, {"seconds": 0.0, "lost": 1.0}, **STUCK)).remedy
        )
        assert "Watch for longer" in decided(loaded(ANY, {"seconds": 0.0}, **STUCK)).remedy


class TestOtherThreads:
    def test_more_of_them_gain_nothing_at_a_lock(self) -> None:
        for arguments in (ANY, FOUR, WORKERS, FIXED):
            verdict = decided(loaded(arguments, AT_A_LOCK, cores_used=0.1))
            assert (verdict.kind, verdict.settings, verdict.bound) == ("lock", {}, None)
            assert "More threads gain nothing." in verdict.remedy
            assert ('Give Loader `workers="process"`' in verdict.remedy) is (arguments is WORKERS)

    def test_what_they_wait_for_may_be_what_another_one_makes(self) -> None:
        waits = AT_A_LOCK | {"alone": 0.1}
        for arguments in (ANY, FOUR, WORKERS, FIXED):
            verdict = decided(loaded(arguments, waits, cores_used=0.1))
            assert (verdict.kind, verdict.settings, verdict.bound) == ("I/O", {}, None)
            assert (arguments.several or "Copy less") in verdict.remedy


class TestCores:
    def test_as_many_threads_as_there_are_cores(self) -> None:
        two = dataclasses.replace(FOUR, value=2)
        verdict = decided(loaded(two, {**BESIDE, "concurrency": 2}, cores_used=1.8, consumer_waits=1.0))
        assert (verdict.kind, verdict.settings) == ("CPU", {"num_threads": 8})
        # Only four batches are made at once, which is all that is known to be faster.
        assert verdict.bound == pytest.approx(2.0)

    def test_threads_beyond_four_share_each_batch(self) -> None:
        verdict = decided(loaded(FOUR, BESIDE, cores_used=3.6))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("CPU", {"num_threads": 8}, None)

    def test_more_threads_than_cores_are_not_recommended(self) -> None:
        verdict = decided(loaded(dataclasses.replace(FOUR, value=8), BESIDE, cores_used=3.6))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("CPU", {}, None)
        assert "`num_threads=8` is already that of the cores." in verdict.remedy

    def test_nothing_is_gained_where_all_are_in_use(self) -> None:
        for arguments in (ANY, FOUR, WORKERS, FIXED):
            verdict = decided(loaded(arguments, {**BESIDE, "concurrency": 8}, cores_used=8.0))
            assert (verdict.kind, verdict.settings, verdict.bound) == ("CPU", {}, 1.0)

    def test_threads_that_the_loader_has_too_many_of(self) -> None:
        own = loaded(dataclasses.replace(FOUR, value=32), {"runs": 0.1, "waits_for_thread": 0.9}, **CROWDED)
        verdict = decided(own)
        assert (verdict.kind, verdict.settings) == ("oversubscription", {"num_threads": 8})
        theirs = decided(loaded(WORKERS, {"runs": 0.1, "waits_for_thread": 0.9}, **CROWDED))
        assert theirs.settings == {"threads_per_op": 1, "num_workers": 8}
        assert "OMP_NUM_THREADS=1" in theirs.remedy


class TestGil:
    def test_an_argument_may_have_it_run_in_processes(self) -> None:
        verdict = decided(loaded(WORKERS, IN_TURNS, cores_used=1.0))
        assert (verdict.kind, verdict.settings) == ("GIL", {"num_workers": 8})
        assert 'Give Loader `workers="process"` and `num_workers=8`.' in verdict.remedy
        assert verdict.bound == decide(measures(IN_TURNS, cores_used=1.0)).bound

    def test_what_comes_out_of_a_process_costs_cpu_time(self) -> None:
        changes: dict[str, Any] = {"cores": 2.0, "cores_used": 1.0, "sources": ()}
        # 500 of a millisecond each take half of a core more.
        about = dataclasses.replace(WORKERS, crossing=1e-3)
        assert decided(loaded(about, {**IN_TURNS, "rate": 500.0}, **changes)).bound == pytest.approx(2 / 1.5)

    def test_workers_that_wait_need_a_process_as_well(self) -> None:
        waits = {**IN_TURNS, "waits": 0.5, "concurrency": 16, "waits_for_thread": 0.5, "runs": 0.2}
        verdict = decided(loaded(WORKERS, waits, cores=4.0, cores_used=1.0))
        assert verdict.settings == {"num_workers": 12}

    def test_where_there_is_none_no_gain_is_foretold(self) -> None:
        about = dataclasses.replace(ANY, in_place_of_processes="Another loader has.")
        verdict = decided(loaded(about, IN_TURNS, cores_used=1.0))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("GIL", {}, None)
        assert "No argument of Loader has it run in processes. Another loader has." in verdict.remedy

    def test_ops_too_short_for_a_process(self) -> None:
        tiny = {**IN_TURNS, "rate": 50_000.0, "seconds": 2e-5}
        verdict = decided(loaded(WORKERS, tiny, cores=2.0, cores_used=1.0, sources=()))
        assert (verdict.kind, verdict.settings, verdict.bound) == ("GIL", {}, None)
        assert verdict.remedy.startswith("Do more in each call")

    def test_threads_that_all_wait_for_it(self) -> None:
        stages = [{**IN_TURNS, "occupancy": 0.6, "concurrency": 8}] * 2
        given = dataclasses.replace(loaded(WORKERS, *stages, cores_used=1.0), busy_threads=8.0)
        assert decided(given).settings == {"num_workers": 8}
        own = decide(measures(*stages, cores_used=1.0, busy_threads=8.0))
        assert (own.kind, own.settings, own.bound) == ("GIL", {}, 1.0)


class TestTheRest:
    def test_an_argument_may_give_up_the_order(self) -> None:
        held = {"occupancy": 0.3, "held": 0.7}
        verdict = decided(loaded(ANY, held))
        assert '`output_order="completion"`' in verdict.remedy
        assert verdict.bound is not None
        fixed = decided(loaded(FOUR, held))
        assert fixed.bound is None
        assert "No argument" in fixed.remedy
        assert "output_order" not in fixed.remedy

    def test_work_in_the_source(self) -> None:
        busy = (SourceWindow("src", busy=0.95, rate=100.0, oldest=0.0),)
        verdict = decided(loaded(ANY, {**SMALL, "occupancy": 0.25}, sources=busy))
        assert (verdict.kind, verdict.settings) == ("serial source", {"num_threads": 6})
        assert verdict.remedy == "Do less there. Give Loader `num_threads=6`."
        assert verdict.bound == pytest.approx(4.0)

    def test_there_may_be_threads_enough_for_it(self) -> None:
        busy = (SourceWindow("src", busy=0.95, rate=100.0, oldest=0.0),)
        verdict = decide(loaded(dataclasses.replace(ANY, value=8), {**SMALL, "occupancy": 0.25}, sources=busy))
        assert (verdict.remedy, verdict.settings) == ("Do less there.", {"num_threads": 8})

    def test_no_gain_is_foretold_where_no_argument_takes_the_work_out_of_the_source(self) -> None:
        busy = (SourceWindow("src", busy=0.95, rate=100.0, oldest=0.0),)
        given = loaded(FOUR, {**SMALL, "occupancy": 0.25}, sources=busy)
        assert given.loader is not None
        verdict = decided(dataclasses.replace(given, loader=dataclasses.replace(given.loader, source_several="")))
        assert (verdict.remedy, verdict.settings, verdict.bound) == ("Do less there.", {}, None)

    def test_a_hang(self) -> None:
        verdict = decided(loaded(ANY, {"rate": 0.0, "oldest": 60.0}, **STUCK))
        assert "with `timeout=...` of Loader the loop raises" in verdict.remedy
        assert "kill -CONT" in decided(loaded(ANY, is_stopped=True)).remedy

    def test_nothing_is_in_use(self) -> None:
        verdict = decided(loaded(ANY, {"occupancy": 0.5}))
        assert verdict.remedy == "Watch for longer (`--seconds`). Ask sooner."

    def test_lost_items(self) -> None:
        assert "given up: the log says why." in decided(loaded(ANY, {"lost": 0.5})).evidence

    def test_the_busier_one_of_two_of_a_name_is_meant(self) -> None:
        given = loaded(ANY, {"occupancy": 0.2}, {})
        assert [stage.name for stage in given.stages] == [STAGE.name] * 2
        assert decided(given).remedy == "Copy less."


class TestPacked:
    LOADER = LoaderArguments("Loader", (ANY, FOUR, WORKERS), source="Do less.", on_demand=True)

    def test_it_comes_out_as_it_went_in(self) -> None:
        assert LoaderArguments.unpack(dataclasses.asdict(self.LOADER)) == self.LOADER

    def test_another_release_may_know_of_more_or_of_less(self) -> None:
        packed = dataclasses.asdict(self.LOADER)
        del packed["idle"], packed["stages"][0]["order"]
        packed["later"] = packed["stages"][1]["later"] = "than this one"
        first = dataclasses.replace(ANY, order="")
        assert LoaderArguments.unpack(packed) == dataclasses.replace(self.LOADER, stages=(first, FOUR, WORKERS))

    @pytest.mark.parametrize("packed", [{}, {"loader": "Loader"}, {"loader": "Loader", "stages": [1]}, [], 7])
    def test_anything_else_is_refused(self, packed: Any) -> None:
        with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
            LoaderArguments.unpack(packed)


def test_a_pipeline_of_the_users_own_has_the_words_of_its_builder() -> None:
    assert PIPELINE.loader is None
    verdict = decide(measures())
    assert verdict.settings.keys() == {"concurrency", "num_threads"}
    assert "slots" in verdict.evidence
