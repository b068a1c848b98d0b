"""Times and waits are booked wrong."""

from tests.mutation.mutants.mutant import Mutant

__all__ = ["METRICS"]

METRICS = (
    Mutant(
        "a wait for room is booked as a wait for items",
        "Node.has_room",
        "        self.counters.wait(BLOCKED)",
        "        self.counters.wait(0)",
        ("test_statistics_say",),
    ),
    Mutant(
        "a wait for an earlier item is booked as a wait for room",
        "Node.admits",
        "self.counters.wait(verdict)",
        "self.counters.wait(1)",
        ("test_statistics_say",),
    ),
    Mutant(
        "a slot that is free after a carried item is booked nowhere",
        "FunctionNode.start",
        "                counters.slot_freed(0)",
        "                pass",
        ("test_a_slot_without_an_item_is_starved",),
    ),
    Mutant(
        "a carried item into the last slot does not end the wait of that slot",
        "FunctionNode.start",
        "                    or node.running >= node.concurrency\n",
        "",
        ("test_statistics_say",),
    ),
    Mutant(
        "a carried item does not end a wait for room",
        "FunctionNode.start",
        "                    or counters.waiting_for\n",
        "",
        ("test_a_carried_item_ends_a_wait_for_room_and_is_counted_as_waited_for",),
    ),
    Mutant(
        "no wait for a carried item is noted",
        "FunctionNode.start",
        "counters.note_wait(begin, weight)",
        "pass",
        ("test_a_carried_item_ends_a_wait_for_room_and_is_counted_as_waited_for",),
    ),
    Mutant(
        "the wait for the lock counts as an op's time",
        "FunctionNode._account",
        "        self.counters.busy_seconds += seconds",
        "        self.counters.busy_seconds += perf_counter() - start",
        ("test_statistics_say",),
    ),
    Mutant(
        "a slot that is free again is booked nowhere",
        "StageCounters.slot_freed",
        "            self.waiting_for = STARVED\n            self.waiting_since = perf_counter()",
        "            pass",
        ("test_a_slot_without_an_item_is_starved",),
    ),
    Mutant(
        "the wait of a result for a place in a queue is booked nowhere",
        "QueueCounters.catch_up",
        "            self.put_seconds += seconds",
        "            pass",
        ("test_report_lines_of",),
    ),
    Mutant(
        "a queue in which an item lies counts as empty",
        "QueueCounters.took",
        "        self.occupied_seconds += now - max(since, self.filled_at)",
        "        pass",
        ("test_report_lines_of",),
    ),
)
