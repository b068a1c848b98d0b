"""Times and waits are booked wrong."""

from tests.mutation.mutants.mutant import Mutant

__all__ = ["METRICS"]

METRICS = (
    Mutant(
        "a wait for room is booked as a wait for items",
        "_engine/node.py",
        "        self.counters.wait(BLOCKED)",
        "        self.counters.wait(0)",
        ("metrics/test_bottleneck.py",),
    ),
    Mutant(
        "a wait for an earlier item is booked as a wait for room",
        "_nodes/op_node.py",
        "            self.counters.wait(HELD)",
        "            self.counters.wait(1)",
        ("engine/test_order.py::TestOrder::test_a_slow_item_holds_back_no_more_than_said",),
    ),
    Mutant(
        "a slot that is free after a carried item is booked nowhere",
        "_engine/worker.py",
        "                counters.waiting_since = end",
        "                pass",
        ("metrics/test_statistics.py::test_a_slot_without_an_item_is_starved",),
    ),
    Mutant(
        "the wait for the lock counts as an op's time",
        "_engine/worker.py",
        "            acquire()\n            counters.busy_seconds += seconds\n",
        "            acquire()\n            counters.busy_seconds += perf_counter() - begin\n",
        ("engine/test_worker.py::test_the_wait_for_the_lock_is_no_time_of_the_ops",),
    ),
    Mutant(
        "a slot that is free again is booked nowhere",
        "_metrics/counters.py",
        "            self.waiting_for = STARVED\n            self.waiting_since = perf_counter()",
        "            pass",
        ("metrics/test_statistics.py::test_a_slot_without_an_item_is_starved",),
    ),
    Mutant(
        "the wait of a result for a place in a queue is booked nowhere",
        "_metrics/counters.py",
        "            self.put_seconds += seconds",
        "            pass",
        ("metrics/test_reporter.py::TestValues",),
    ),
    Mutant(
        "a queue in which an item lies counts as empty",
        "_metrics/counters.py",
        "        self.occupied_seconds += now - max(since, self.filled_at)",
        "        pass",
        ("metrics/test_reporter.py::TestValues",),
    ),
)
