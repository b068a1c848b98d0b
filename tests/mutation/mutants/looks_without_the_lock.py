"""What happens between a look without the lock and what follows from it is missed."""

from tests.mutation.mutants.mutant import Mutant

__all__ = ["LOOKS_WITHOUT_THE_LOCK"]

LOOKS_WITHOUT_THE_LOCK = (
    Mutant(
        "a stage or a source waits for the sink without a second look at it",
        "_engine/sink.py",
        "        self.full = True\n        return under_way + len(self.entries) < self.capacity + concurrency",
        "        self.full = True\n        return False",
        ("engine/test_wake_ups.py::TestRoom::test_made_between_the_loops_look_and_its_wait",),
    ),
    Mutant(
        "pulls of a millisecond count as short ones",
        "_engine/source.py",
        "self.counters.busy_seconds > _SHORT * self.counters.emitted",
        "self.counters.busy_seconds > 1000 * _SHORT * self.counters.emitted",
        ("engine/test_wake_ups.py::TestWorkers::test_those_that_may_run_no_op_pull_what_takes_long",),
    ),
    Mutant(
        "no worker without a permit is woken for a source however long its pulls are",
        "_engine/source.py",
        "self.counters.busy_seconds > _SHORT * self.counters.emitted",
        "False",
        ("engine/test_wake_ups.py::TestWorkers::test_those_that_may_run_no_op_pull_what_takes_long",),
    ),
    Mutant(
        "no worker without a permit is woken for a source that feeds the event loop or an executor",
        "_engine/source.py",
        "self.takes_long or first is None or first.on_loop or not first.on_workers",
        "self.takes_long",
        ("engine/test_wake_ups.py::TestWorkers::test_a_quick_source_is_pulled_for_what_needs_none_of_the_threads",),
    ),
    Mutant(
        "an op that takes the last thread wakes nobody, whatever waits",
        "_engine/worker.py",
        "(workers.permits > 0 or engine.wanted_when_full)",
        "workers.permits > 0",
        ("engine/test_wake_ups.py::TestWorkers::test_those_that_may_run_no_op_pull_what_takes_long",),
    ),
    Mutant(
        "an op that takes the last thread wakes nobody for a turn that needs none",
        "_engine/engine.py",
        "bool(self.permit_free) or any(map(Source.is_wanted_when_full",
        "any(map(Source.is_wanted_when_full",
        ("engine/test_wake_ups.py::TestWorkers::test_one_is_woken_for_a_turn_that_needs_none_of_the_threads",),
    ),
    Mutant(
        "a source whose pulls have become long is noted as one whose pulls are short",
        "_engine/source.py",
        "            self.engine.look_for_long_pulls()",
        "            pass",
        ("engine/test_wake_ups.py::TestWorkers::test_those_that_may_run_no_op_pull_what_takes_long",),
    ),
    Mutant(
        "a worker whose source blocks wakes nobody for another source",
        "_engine/source.py",
        "len(engine.sources) > 1 and engine.workers.idle",
        "False",
        ("engine/test_wake_ups.py::TestWorkers::test_one_is_woken_for_another_source_than_the_one_that_blocks",),
    ),
    Mutant(
        "a reader waits without a second look for a stop",
        "_pipeline/waiting.py",
        " ended = engine.stopping",
        " ended = False",
        ("test_faults.py::TestMomentsOfAStop::test_between_a_readers_look_and_its_wait",),
    ),
    Mutant(
        "an event loop started during a stop is not told of it",
        "_engine/engine.py",
        "            if self.stopping:",
        "            if False:",
        ("engine/test_wake_ups.py::TestWorkers::test_a_stop_while_the_event_loop_is_made",),
    ),
    Mutant(
        "a reader that is interrupted takes another's wake-up with it",
        "_engine/sink.py",
        "        while True:\n            try:\n                gate = self.readers.pop()",
        "        for _ in range(1):\n            try:\n                gate = self.readers.pop()",
        ("engine/test_wake_ups.py::TestReaders",),
    ),
    Mutant(
        "the report of room in the sink is not repeated after an interrupt",
        "_engine/engine.py",
        "            self.sink.set_full(full=True)\n            raise",
        "            raise",
        ("test_fault_sections.py::test_an_interrupt_between_any_two_lines_of_the_consumers",),
    ),
)
