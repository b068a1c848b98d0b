"""The bugs: what to change in which file of the engine, and the tests that should notice first."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """A bug to plant.

    Attributes:
        name: The rule that it breaks, as what goes wrong.
        file: The file in ``src/spdl/pipeline``.
        find: What to replace, which occurs there exactly once.
        replace: By what.
        tests: Those that should find it, as ``module.py::name`` in ``tests/pipeline``. If they do not, all are run.
    """

    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...] = ()


_WAKE_UPS = (
    Mutant(
        "who begins an op wakes no worker for what is left behind",
        "_worker.py",
        "if idle and not engine.waking:",
        "if False:",
        ("test_wake_ups.py::TestWorkers::test_idle_ones_are_woken_for_all_that_can_run",),
    ),
    Mutant(
        "an item put into a queue does not count as waiting",
        "_engine.py",
        "            self.waiting += 1\n        elif self.lane is not None and node",
        "            pass\n        elif self.lane is not None and node",
        ("test_aggregate_node.py::TestAggregates::test_batches",),
    ),
    Mutant(
        "a retry that is due does not count as waiting",
        "_engine.py",
        "            self.waiting += 1\n        elif self.lane is not None:",
        "            pass\n        elif self.lane is not None:",
        ("test_policy.py::TestRetries::test_an_item_is_tried_again",),
    ),
    Mutant(
        "the event loop is not woken for an item",
        "_engine.py",
        "elif self.lane is not None and node.running < node.limit:",
        "elif False:",
        ("test_async_node.py::TestAsync::test_failures_and_drops",),
    ),
    Mutant(
        "nobody is woken to pull the source",
        "_engine.py",
        " or self.pullable() is not None:\n            self.wake_worker()",
        ":\n            self.wake_worker()",
        ("test_wake_ups.py::TestWorkers::test_idle_ones_are_woken_for_all_that_can_run",),
    ),
    Mutant(
        "the woken worker does not say that it has arrived",
        "_worker.py",
        "    engine.waking = False",
        "    pass",
        ("test_wake_ups.py::TestWorkers::test_idle_ones_are_woken_for_all_that_can_run",),
    ),
    Mutant(
        "room made in the sink wakes no worker",
        "_engine.py",
        "try:\n            self.progressed()",
        "try:\n            pass",
        ("test_function_node.py::TestFunctions::test_no_stage_at_all",),
    ),
    Mutant(
        "room made in the sink does not wake the event loop",
        "_engine.py",
        "                self.lane.wake()\n            for source",
        "                pass\n            for source",
        ("test_wake_ups.py::TestRoom::test_in_the_sink_behind_a_stage_that_the_event_loop_serves",),
    ),
    Mutant(
        "who finds the sink full leaves no word",
        "_node.py",
        "self.engine.sink.full = True",
        "pass",
        ("test_wake_ups.py::TestRoom::test_in_the_sink_behind_a_stage_that_the_event_loop_serves",),
    ),
    Mutant(
        "room made in a queue does not wake the event loop",
        "_engine.py",
        "if node.feeders[0].wants_room:",
        "if False:",
        ("test_async_node.py::TestAsync::test_async_sources",),
    ),
    Mutant(
        "room made in front of a merge does not wake the branch",
        "_merge_node.py",
        "self.engine.made_room(self.feeders[index])",
        "pass",
        ("test_wake_ups.py::TestRoom::test_in_a_branch_that_the_event_loop_serves",),
    ),
    Mutant(
        "an item put into the sink wakes no reader",
        "_sink.py",
        "        if self.readers:",
        "        if False:",
        ("test_wake_ups.py::TestReaders::test_one_that_waits_without_limit_is_told_of_an_item_and_of_the_end",),
    ),
    Mutant(
        "the end wakes no reader",
        "_engine.py",
        "        while self.sink.readers:",
        "        while False:",
        ("test_wake_ups.py::TestReaders::test_one_that_waits_without_limit_is_told_of_an_item_and_of_the_end",),
    ),
    Mutant(
        "the end leaves idle workers asleep",
        "_engine.py",
        "        for gate in list(self.gates):",
        "        for gate in ():",
        ("test_lifetime.py::test_a_forgotten_pipeline_ends_its_threads",),
    ),
    Mutant(
        "a wake-up of the event loop stays pending for ever",
        "_lane.py",
        "            self._woken = False\n            if",
        "            if",
        ("test_async_node.py::TestAsync::test_failures_and_drops",),
    ),
    Mutant(
        "the server of an async stage ends uncounted",
        "_async_node.py",
        "        self.servers -= 1",
        "        pass",
        ("test_async_node.py::TestAsync::test_they_share_one_thread_that_nobody_else_starts",),
    ),
    Mutant(
        "a thread of a source's own does not say that it waits for room",
        "_dedicated.py",
        "source.wants_room = True",
        "pass",
        ("test_dedicated.py::TestDedicatedThread::test_everything_happens_in_one_thread",),
    ),
    Mutant(
        "a call in an executor says after its end that it is still to come",
        "_thread_pool_node.py",
        "        engine.lock.acquire()\n        self.coming = False",
        "        engine.lock.acquire()",
        ("test_thread_pool_node.py",),
    ),
    Mutant(
        "what came back from a process does not count as waiting",
        "_process_pool_node.py",
        "            self.engine.has_work(self)",
        "            pass",
        ("test_process_pool_node.py",),
    ),
)

_LOOKS_WITHOUT_THE_LOCK = (
    Mutant(
        "a stage on the event loop waits without a second look at the sink",
        "_node.py",
        "self.engine.sink.full = True\n            if reserved",
        "self.engine.sink.full = True\n            if False and reserved",
        ("test_wake_ups.py::TestRoom::test_made_between_the_loops_look_and_its_wait",),
    ),
    Mutant(
        "a source in front of the sink waits without a second look at it",
        "_source.py",
        "        return len(sink.entries) < sink.size",
        "        return False",
        ("test_wake_ups.py::TestRoom::test_made_between_the_loops_look_and_its_wait",),
    ),
    Mutant(
        "a reader waits without a second look for a stop",
        "_pipeline.py",
        " ended = engine.stopping",
        " ended = False",
        ("test_faults.py::TestMomentsOfAStop::test_between_a_readers_look_and_its_wait",),
    ),
    Mutant(
        "a loop started during a stop is not told of it",
        "_engine.py",
        "            if self.stopping:",
        "            if False:",
        ("test_wake_ups.py::TestWorkers::test_a_stop_before_the_first_coroutine_appears",),
    ),
    Mutant(
        "a reader that is interrupted takes another's wake-up with it",
        "_pipeline.py",
        "                if not opened:",
        "                if False:",
        ("test_wake_ups.py::TestReaders",),
    ),
)

_ORDER = (
    Mutant(
        "a carried item overtakes those that wait",
        "_worker.py",
        "                    and not following.queue\n",
        "",
        ("test_worker.py::test_stages_of_one_slot_keep_the_order",),
    ),
    Mutant(
        "a pulled item overtakes those that wait",
        "_worker.py",
        "            and not first.queue\n",
        "",
        ("test_worker.py::test_stages_of_one_slot_keep_the_order",),
    ),
    Mutant(
        "a carried result leaves before those of earlier tickets",
        "_order.py",
        "        if tickets[0] is not ticket:\n            return False",
        "        if False:\n            return False",
        ("test_order.py::TestOrder::test_input_order_is_kept",),
    ),
    Mutant(
        "a ticket that is done behind a carried one is not looked at",
        "_order.py",
        "if len(tickets) > 1 and (tickets[1].done or tickets[1].results):",
        "if False:",
        ("test_order.py::TestOrder::test_input_order_is_kept",),
    ),
    Mutant(
        "a result leaves before those of earlier tickets",
        "_order.py",
        "        if self.tickets[0] is not ticket:",
        "        if False:",
        ("test_order.py::TestOrder::test_async_ops",),
    ),
    Mutant(
        "a generator's results leave before those of earlier tickets",
        "_order.py",
        "        if self.tickets[0] is ticket:\n",
        "        if True:\n",
        ("test_order.py::TestOrder::test_generators_in_input_order",),
    ),
    Mutant(
        "a ticket that is done behind the head is dropped",
        "_order.py",
        "while tickets and tickets[0].done:",
        "if tickets and tickets[0].done:",
        ("test_order.py::TestOrder",),
    ),
    Mutant(
        "an item without result keeps its ticket",
        "_function_node.py",
        "for entry in self.order.complete(ticket):",
        "for entry in ():",
        ("test_order.py::TestOrder::test_drops_and_failures_leave_no_gap",),
    ),
    Mutant(
        "an ordered stage starts however much waits for an earlier item",
        "_order.py",
        "return len(self.tickets) < limit + AHEAD",
        "return True",
        ("test_order.py::TestOrder::test_a_slow_item_holds_back_no_more_than_said",),
    ),
    Mutant(
        "generators behind the head's gather results without bound",
        "_function_node.py",
        "return self.order.buffered + under_way < self.limit + AHEAD",
        "return True",
        ("test_order.py::TestOrder::test_generators_behind_a_slow_one_pause",),
    ),
    Mutant(
        "an epoch's end overtakes the items that are worked on",
        "_function_node.py",
        "return not self.running and self.has_room(0)",
        "return self.has_room(0)",
        ("test_epochs.py",),
    ),
    Mutant(
        "a batch goes on into the next epoch",
        "_aggregate_node.py",
        "                self._end_batch()\n                self.pass_mark()",
        "                self.pass_mark()",
        ("test_epochs.py::test_batches_never_span_epochs",),
    ),
    Mutant(
        "the next epoch iterates what the last one has exhausted",
        "_source.py",
        "        self.iterator = None\n        self._pass_on(MARK)",
        "        self._pass_on(MARK)",
        ("test_epochs.py::test_each_iterator_is_one_epoch",),
    ),
    Mutant(
        "a merge always begins at its first branch",
        "_merge_node.py",
        "self.following = (index + 1) % len(self.inlets)",
        "pass",
        ("test_graphs.py::TestMerge::test_branches_take_turns",),
    ),
    Mutant(
        "a merge passes an epoch's end on for each branch",
        "_merge_node.py",
        "if self.inlets[index] and self.inlets[index][0] is not MARK:",
        "if self.inlets[index]:",
        ("test_epochs.py::test_a_merge_waits_for_the_end_in_every_branch",),
    ),
    Mutant(
        "a batch is put together before all of its shares have come",
        "_batched_routes.py",
        "any(share.pending for share in head[1])",
        "all(share.pending for share in head[1])",
        ("test_graphs.py::TestBatchedVariants",),
    ),
)

_COUNTS = (
    Mutant(
        "a worker keeps its permit",
        "_worker.py",
        "    engine.permits += 1",
        "    pass",
        ("test_function_node.py::TestFunctions",),
    ),
    Mutant(
        "an op that has ended keeps its slot",
        "_worker.py",
        "            node.running -= 1",
        "            pass",
        ("test_function_node.py::TestFunctions",),
    ),
    Mutant(
        "an op that failed keeps its slot",
        "_function_node.py",
        "                self.engine.lane.wake()\n        self.slot_freed()",
        "                self.engine.lane.wake()",
        ("test_function_node.py::TestFailures",),
    ),
    Mutant(
        "a carried item enters a stage that has no free slot",
        "_worker.py",
        "                    and following.running < following.limit\n",
        "",
        ("test_worker.py::test_no_stage_exceeds_its_limit",),
    ),
    Mutant(
        "an op on a carried item starts though its result has no place",
        "_worker.py",
        "                    and following.running + len(following.out) < following.room\n",
        "",
        ("test_worker.py::test_no_op_starts_whose_result_has_no_place",),
    ),
    Mutant(
        "an op on an item just pulled starts though its result has no place",
        "_worker.py",
        "            and first.running + len(first.out) < first.room\n",
        "",
        ("test_worker.py::test_no_op_starts_whose_result_has_no_place",),
    ),
    Mutant(
        "more ops run than there are permits",
        "_engine.py",
        "        if self.permits:",
        "        if True:",
        ("test_function_node.py::TestFunctions::test_num_threads_bounds_all_stages_together",),
    ),
    Mutant(
        "two threads pull one source",
        "_source.py",
        "if self.pulling or self.ended",
        "if self.ended",
        ("test_function_node.py::TestFunctions::test_source_calls_never_overlap",),
    ),
    Mutant(
        "two threads call one aggregator",
        "_aggregate_node.py",
        " and self.running < self.limit and self.has_room(0)",
        " and self.has_room(0)",
        ("test_aggregate_node.py::TestAggregates::test_an_aggregator_is_called_from_one_thread_at_a_time",),
    ),
    Mutant(
        "the source fills the first queue without bound",
        "_source.py",
        "            return self.has_place()\n        return len(self.out) < EDGE_CAPACITY",
        "            return self.has_place()\n        return True",
        ("test_pipeline.py::test_the_source_runs_no_further_ahead_than_said",),
    ),
    Mutant(
        "a generator that rests gives its slot away",
        "_function_node.py",
        "value, attempt.ticket))",
        "value, attempt.ticket))\n            self.slot_freed()",
        ("test_function_node.py::TestGenerators",),
    ),
    Mutant(
        "an async generator is asked for results that have no place",
        "_async_node.py",
        "            if node.may_emit(ticket):",
        "            if True:",
        ("test_async_node.py::TestAsync::test_an_endless_async_generator_is_paused_when_nobody_reads",),
    ),
    Mutant(
        "an item that waits for its retry loses its slot",
        "_function_node.py",
        "            self.retried += 1",
        "            self.retried += 1\n            self.slot_freed()",
        ("test_policy.py::TestRetries",),
    ),
    Mutant(
        "a router runs ahead of full paths without bound",
        "_router_node.py",
        "for path in self.paths) < _LOOK_AHEAD:",
        "for path in self.paths) >= 0:",
        ("test_graphs.py::TestPathVariants::test_the_look_ahead_is_bounded",),
    ),
    Mutant(
        "more concurrency than threads adds no threads",
        "_engine.py",
        "        for thread in added:\n            thread.start()",
        "        for thread in added:\n            pass",
        ("test_set_concurrency.py::TestSetConcurrency::test_more_and_less",),
    ),
    Mutant(
        "a lowered limit is not kept",
        "_engine.py",
        "        node.limit = node.slots = limit",
        "        node.limit = node.slots = max(limit, node.limit)",
        ("test_set_concurrency.py::TestSetConcurrency::test_more_and_less",),
    ),
)

_FLOW = (
    Mutant(
        "what a batcher holds at the end is forgotten",
        "_aggregate_node.py",
        "        self.flushed = drop_last",
        "        self.flushed = True",
        ("test_aggregate_node.py::TestAggregates::test_batches",),
    ),
    Mutant(
        "a stage counts as drained while its ops run",
        "_function_node.py",
        "return not self.queue and not self.running and not self.parked",
        "return not self.queue and not self.parked",
        ("test_order.py::TestOrder",),
    ),
    Mutant(
        "an item without result stays in flight",
        "_function_node.py",
        "        self.engine.lineage.release(root)\n        self._complete(ticket)",
        "        self._complete(ticket)",
        ("test_statistics.py::test_in_flight_is_what_is_neither_delivered_nor_dropped",),
    ),
    Mutant(
        "a batch that was read stays in flight",
        "_lineage.py",
        "                    pending.extend(current.parents)",
        "                    pass",
        ("test_lineage.py",),
    ),
    Mutant(
        "an item that was read stays in flight",
        "_pipeline.py",
        "                self._discard(root)",
        "                pass",
        ("test_engine.py::test_nothing_is_lost_or_duplicated",),
    ),
    Mutant(
        "a result of a generator is not counted as a descendant",
        "_function_node.py",
        "            parked.root.pending += 1",
        "            pass",
        ("test_lineage.py::test_an_item_is_open_while_its_generator_has_more",),
    ),
    Mutant(
        "a share that has arrived is not released",
        "_batched_routes.py",
        "                self.engine.lineage.release(root)",
        "                pass",
        ("test_graphs.py::TestBatchedVariants::test_shares_are_joined_in_the_order_of_the_paths",),
    ),
    Mutant(
        "a batch of which nothing is left stays in flight",
        "_batched_routes.py",
        "            self.engine.lineage.release(batch)",
        "            pass",
        ("test_graphs.py::TestBatchedVariants::test_nothing_stays_in_flight",),
    ),
)

_FAILURES = (
    Mutant(
        "a failure looks like the end",
        "_engine.py",
        "        self.failures.append((where.name, error))",
        "        pass",
        ("test_pipeline.py::test_a_failed_source_is_told_after_the_items_before_it",),
    ),
    Mutant(
        "what is upstream of a failure goes on",
        "_engine.py",
        "            pending += node.feeders",
        "            pass",
        ("test_worker.py::test_a_failure_ends_what_is_upstream",),
    ),
    Mutant(
        "the sources go on after a failure",
        "_engine.py",
        "            source.end()\n            source.interrupt()",
        "            source.interrupt()",
        ("test_worker.py::test_a_failure_ends_what_is_upstream",),
    ),
    Mutant(
        "a source that blocks holds back a failure",
        "_source.py",
        " and (not self.pulling or bool(self.engine.failures))",
        " and not self.pulling",
        ("test_function_node.py::TestFailures::test_a_failure_ends_the_pipeline_though_the_source_blocks",),
    ),
    Mutant(
        "a failed item counts twice",
        "_function_node.py",
        "        self.failed += 1\n        engine = self.engine",
        "        self.failed += 2\n        engine = self.engine",
        ("test_policy.py::TestLimits",),
    ),
    Mutant(
        "a limit bears one failure less than it says",
        "_policy.py",
        "if 0 <= limit < failures:",
        "if 0 <= limit <= failures:",
        ("test_policy.py::TestLimits",),
    ),
    Mutant(
        "a pipeline of which every item failed looks like success",
        "_engine.py",
        "        if self.failures or failed == before[0] or",
        "        if True or",
        ("test_policy.py::TestLimits",),
    ),
    Mutant(
        "what is no Exception costs one item only",
        "_function_node.py",
        "        if not isinstance(error, Exception):",
        "        if False:",
        ("test_pipeline.py::test_what_is_no_exception_fails_the_pipeline",),
    ),
    Mutant(
        "failed items are remembered without bound",
        "_quarantine.py",
        "deque(maxlen=_REMEMBERED)",
        "deque()",
        ("test_quarantine.py::TestQuarantine::test_it_is_bounded",),
    ),
    Mutant(
        "a failed item is kept alive",
        "_quarantine.py",
        "        self._items.append(failed)",
        "        self._items.append(failed)\n        _REPR.last = item  # type: ignore",
        ("test_quarantine.py::TestQuarantine::test_it_keeps_no_item_alive",),
    ),
    Mutant(
        "a retry waits no longer than the one before",
        "_function_node.py",
        "policy.retry_delay * 2.0 ** min(attempt.number - 1, 1023)",
        "policy.retry_delay",
        ("test_policy.py::TestRetries::test_waits_double",),
    ),
    Mutant(
        "a generator that has begun is tried again",
        "_function_node.py",
        "            # Trying it again would repeat what it has passed on.\n            self.give_up(",
        "            self.fail(",
        ("test_policy.py::TestRetries::test_a_generator_that_has_begun_is_not_tried_again",),
    ),
    Mutant(
        "the thread of an op that was written off is not replaced",
        "_engine.py",
        "        self.permits += 1\n        worker",
        "        worker",
        ("test_overtime.py",),
    ),
    Mutant(
        "the late result of an op that was written off counts",
        "_overtime.py",
        "        return not watch.written_off",
        "        return True",
        ("test_overtime.py::test_a_late_result_is_discarded",),
    ),
    Mutant(
        "the timer is set for the first op only",
        "_overtime.py",
        "    def _fall_due(self) -> None:\n        self._armed = False",
        "    def _fall_due(self) -> None:\n        pass",
        ("test_overtime.py",),
    ),
)

_THE_END = (
    Mutant(
        "a source that is left early is not closed",
        "_worker.py",
        "source.close()",
        "pass",
        ("test_pipeline.py::test_an_unfinished_source_is_closed_once",),
    ),
    Mutant(
        "a generator that rests is kept after a stop",
        "_worker.py",
        "engine.rubbish += node.discard()",
        "node.finished = True",
        ("test_function_node.py::TestGenerators::test_generators_are_closed_when_the_pipeline_stops",),
    ),
    Mutant(
        "what was queued is dropped under the lock",
        "_worker.py",
        "    engine.lock.release()\n    rubbish.clear()",
        "    rubbish.clear()\n    engine.lock.release()",
        ("test_faults.py::TestFinalisers",),
    ),
    Mutant(
        "an exception and its frames are dropped under the lock",
        "_function_node.py",
        "        engine.rubbish += (attempt, error)",
        "        pass",
        ("test_faults.py::TestFinalisers",),
    ),
    Mutant(
        "a stop inside a critical section waits for itself",
        "_engine.py",
        "return self.holds_lock() or ",
        "return ",
        ("test_faults.py::TestMomentsOfAStop",),
    ),
    Mutant(
        "a stop inside an op waits for itself",
        "_engine.py",
        " or current_thread() in self.all_threads()",
        "",
        ("test_pipeline.py::test_an_op_may_stop_its_own_pipeline_and_ask_for_statistics",),
    ),
    Mutant(
        "a forgotten pipeline runs on",
        "_pipeline.py",
        "weakref.finalize(self, self._engine.request_stop).atexit = False",
        "pass",
        ("test_lifetime.py::test_a_forgotten_pipeline_ends_its_threads",),
    ),
    Mutant(
        "the interpreter ends without stopping pipelines",
        "_lifetime.py",
        "atexit.register(_stop_all)",
        "",
        ("test_lifetime.py::test_the_interpreter_stops_a_pipeline_at_its_exit",),
    ),
    Mutant(
        "a forked child waits for threads that it does not have",
        "_lifetime.py",
        "        engine.forked = True",
        "        pass",
        ("test_lifetime.py::test_a_forked_child_is_told_to_build_its_own",),
    ),
    Mutant(
        "a forked child delivers what its parent delivers",
        "_lifetime.py",
        "        engine.sink.entries.clear()",
        "        pass",
        ("test_faults.py::TestTheRest::test_a_forked_child_gets_nothing_that_the_parent_delivers",),
    ),
)

_STATISTICS = (
    Mutant(
        "a wait for room is booked as a wait for items",
        "_node.py",
        "        self.wait(BLOCKED)",
        "        self.wait(STARVED)",
        ("test_bottleneck.py",),
    ),
    Mutant(
        "a wait for an earlier item is booked as a wait for room",
        "_function_node.py",
        "            self.wait(HELD)",
        "            self.wait(1)",
        ("test_order.py::TestOrder::test_a_slow_item_holds_back_no_more_than_said",),
    ),
    Mutant(
        "a free slot with nothing to do is booked nowhere",
        "_worker.py",
        "                node.waiting_since = end",
        "                pass",
        ("test_statistics.py::test_generators_count_items_and_results_apart",),
    ),
    Mutant(
        "the wait for the lock counts as an op's time",
        "_worker.py",
        "node.busy_seconds += end - begin\n            if sampled",
        "node.busy_seconds += perf_counter() - begin\n            if sampled",
        ("test_worker.py::test_the_wait_for_the_lock_is_no_time_of_the_ops",),
    ),
)

MUTANTS = (
    *_WAKE_UPS,
    *_LOOKS_WITHOUT_THE_LOCK,
    *_ORDER,
    *_COUNTS,
    *_FLOW,
    *_FAILURES,
    *_THE_END,
    *_STATISTICS,
)
