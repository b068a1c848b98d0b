"""Calls of the user's executors are counted wrong, forgotten, or made too early or too late."""

from tests.mutation.mutants.mutant import Mutant

__all__ = ["EXECUTORS"]

EXECUTORS = (
    Mutant(
        "workers submit a call to a pool that has not begun the last one",
        "ThreadPoolNode.ready",
        "return not self.coming and super().ready()",
        "return super().ready()",
        ("test_one_call_waits_in_a_busy_executor",),
    ),
    Mutant(
        "no call is submitted to a pool while one runs",
        "ThreadPoolNode.ready",
        "return not self.coming and super().ready()",
        "return not self.futures and super().ready()",
        ("test_no_op_waits_for_another",),
    ),
    Mutant(
        "a pool's thread becomes free without a call for the items of the next stage",
        "ThreadPoolNode._serve",
        "in (self.next, self):",
        "in (self,):",
        ("test_finished_work_leaves_before_new_work_is_begun",),
    ),
    Mutant(
        "a pool's thread becomes free without a call for the items of its own stage",
        "ThreadPoolNode._serve",
        "in (self.next, self):",
        "in (self.next,):",
        ("test_a_pool_of_threads_is_shared_by_pipelines",),
    ),
    Mutant(
        "a pool's thread submits a call for which there is no room",
        "ThreadPoolNode.prepare_for_free_thread",
        "not engine.is_over() and FunctionNode.ready(self):\n            self.turn()",
        "not engine.is_over():\n            self.turn()",
        ("test_calls_are_not_submitted_for_nothing",),
    ),
    Mutant(
        "a call that is cancelled after the last item fails the pipeline",
        "ExecutorNode.check_alive",
        "if not (self.engine.is_over() or self.finished):",
        "if not self.engine.stopping:",
        ("test_what_is_left_in_the_pool_may_be_cancelled_when_all_has_come",),
    ),
    Mutant(
        "a call that the executor did not make is forgotten",
        "ThreadPoolNode._landed",
        "if self.check_alive(future) and (error",
        "if not self.check_alive(future) and (error",
        ("test_a_thread_that_cannot_be_started_fails_the_pipeline",),
    ),
    Mutant(
        "a hand-over that came back from a process still counts as under way",
        "ProcessPoolNode._landed",
        "        self.handed_over -= 1\n        if watch is not None",
        "        if watch is not None",
        ("TestHandOvers",),
    ),
    Mutant(
        "a hand-over to a process does not count as under way",
        "ProcessPoolNode._send",
        "        self.handed_over += 1",
        "        pass",
        ("test_executors_get_calls",),
    ),
    Mutant(
        "a hand-over with no item that could be sent counts as under way",
        "ProcessPoolNode._send",
        "            engine.lock.acquire()\n            self.handed_over -= 1",
        "            engine.lock.acquire()",
        ("TestFailures::test_items_that_cannot_be_sent_hold_nothing_up",),
    ),
)
