"""Mistakes that were once made, and found by simulated runs."""

from tests.mutation.mutants.mutant import Mutant

__all__ = ["ONCE_MADE"]

ONCE_MADE = (
    Mutant(
        "a source that failed holds up the merge's epochs",
        "MergeNode._at_barrier",
        "            elif not self.feeders[index].is_finished():",
        "            else:",
        ("test_merge.py",),
    ),
    Mutant(
        "an item that the timer gave up frees its slot without a word to the event loop",
        "OpNode.give_up",
        "        if self.on_loop and self.queue and engine.event_loop is not None:\n            # The loop may",
        "        if False:\n            # The loop may",
        ("test_timeout",),
    ),
    Mutant(
        "a step that a stop forestalled stays watched",
        "FunctionNode._not_begun",
        "            self.timeout.end(watch)\n        self.engine.drops.extend((work.iterator",
        "            pass\n        self.engine.drops.extend((work.iterator",
        ("test_a_step_that_a_stop_forestalls_keeps_nothing",),
    ),
    Mutant(
        "a generator with hooks is not closed if a step is under way",
        "_Generator.step",
        "            if unwanted:\n                self._close()",
        "            pass",
        ("TestTheEnd::test_a_generator_is_closed_after_its_last_step",),
    ),
    Mutant(
        "a result of an aggregator that was not consumed begins with what a later one has left over",
        "AggregatorHistory.cut",
        "and unconsumed[first - 1] not in referred",
        "",
        ("test_resume_leftovers.py",),
    ),
    Mutant(
        "a result that comes again of an earlier run begins with what is left over now",
        "AggregateNode._begin_again",
        "        self.loading = again.leftover.left",
        "        pass",
        ("test_resume_leftovers.py",),
    ),
    Mutant(
        "an item that a hook has kept from an aggregator is among those that the aggregator keeps",
        "HookedAggregateNode._conclude",
        "                engine.drops.append(self.kept.take_back())",
        "                pass",
        ("TestFaults::test_an_aggregate_loses_no_batch_to_a_hook",),
    ),
    Mutant(
        "an epoch that was flushed in an earlier run is flushed again",
        "AggregateNode._flush_epoch",
        "if history.leftover.epoch > history.epoch:",
        "if False:",
        ("test_resume_leftovers.py",),
    ),
    Mutant(
        "a stop is taken for the end of the items",
        "Engine.failure_at_end",
        "        if self.failures or self.stopping:\n            return None",
        "        if self.failures:\n            return None",
        ("test_queue_node.py",),
    ),
    Mutant(
        "an op begins although the pipeline was asked to stop",
        "FunctionNode.start",
        "if engine.stopping:\n                node._not_begun",
        "if False:\n                node._not_begun",
        ("test_fault_stop.py",),
    ),
    Mutant(
        "an async generator that waits for room is not told of a slot that another one has left",
        "OpNode.slot_freed",
        "may be what an async generator waits for.\n        if self.wants_room and",
        "may be what an async generator waits for.\n        if False and",
        ("test_asynchronous.py",),
    ),
    Mutant(
        "a slot that found no room is booked nowhere once there is room and no item",
        "StageCounters.taken_at",
        "if not (all_slots_taken or waiting or self.waiting_since):",
        "if False:",
        ("test_statistics.py",),
    ),
)
