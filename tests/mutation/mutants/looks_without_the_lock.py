"""What happens between a look without the lock and what follows from it is missed."""

from tests.mutation.mutants.mutant import Mutant

__all__ = ["LOOKS_WITHOUT_THE_LOCK"]

LOOKS_WITHOUT_THE_LOCK = (
    Mutant(
        "a stage or a source waits for the sink without a second look at it",
        "Sink.has_place",
        "        self.full = True\n        return under_way + len(self.entries) < self.capacity + concurrency",
        "        self.full = True\n        return False",
        ("TestRoom::test_made_between_the_loops_look_and_its_wait",),
    ),
    Mutant(
        "pulls of a millisecond count as short ones",
        "Source._note_pace",
        "self.counters.busy_seconds > _SHORT * self.counters.emitted",
        "self.counters.busy_seconds > 1000 * _SHORT * self.counters.emitted",
        ("test_merge_and_workers_take_turns",),
    ),
    Mutant(
        "no worker without a permit is woken for a source however long its pulls are",
        "Source._note_pace",
        "self.counters.busy_seconds > _SHORT * self.counters.emitted",
        "False",
        ("test_merge_and_workers_take_turns",),
    ),
    Mutant(
        "no worker without a permit is woken for a source that feeds the event loop or an executor",
        "Source.is_wanted_when_full",
        "self.takes_long or first is None or first.on_loop or not first.on_workers",
        "self.takes_long",
        ("TestWorkers::test_a_quick_source_is_pulled_for_what_needs_none_of_the_threads",),
    ),
    Mutant(
        "an op that takes the last thread wakes nobody, whatever waits",
        "Engine.release_to_user",
        "        self.progressed()\n",
        "        if self.workers.permits > 0:\n            self.progressed()\n",
        ("test_merge_and_workers_take_turns",),
    ),
    Mutant(
        "a worker whose source blocks wakes nobody for another source",
        "Source.pull",
        "len(engine.sources) > 1 and engine.workers.idle",
        "False",
        ("TestWorkers::test_one_is_woken_for_another_source_than_the_one_that_blocks",),
    ),
    Mutant(
        "a reader waits without a second look for a stop",
        "wait",
        " ended = engine.stopping",
        " ended = False",
        ("TestMomentsOfAStop::test_between_a_readers_look_and_its_wait",),
    ),
    Mutant(
        "an event loop started during a stop is not told of it",
        "Engine.start_event_loop",
        "            if self.stopping:",
        "            if False:",
        ("TestWorkers::test_a_stop_while_the_event_loop_is_made",),
    ),
    Mutant(
        "a reader that is interrupted takes another's wake-up with it",
        "Sink.wake_readers",
        "        while True:\n            try:\n                gate = self.readers.pop()",
        "        for _ in range(1):\n            try:\n                gate = self.readers.pop()",
        ("TestReaders",),
    ),
    Mutant(
        "the report of room in the sink is not repeated after an interrupt",
        "Engine.room_in_sink",
        "            self.sink.set_full(full=True)\n            raise",
        "            raise",
        ("test_an_interrupt_between_any_two_lines_of_the_consumers",),
    ),
)
