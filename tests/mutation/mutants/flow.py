"""What is in flight is counted wrong, and queues, hooks and aggregators lose track of items."""

from tests.mutation.mutants.mutant import Mutant

__all__ = ["FLOW"]

FLOW = (
    Mutant(
        "a batcher forgets the items that it holds at the end",
        "_nodes/aggregate.py",
        "        self.flushed = False",
        "        self.flushed = True",
        ("nodes/test_aggregate.py::TestAggregates::test_batches",),
    ),
    Mutant(
        "a stage counts as drained while its ops run",
        "_nodes/op_node.py",
        "return not self.queue and not self.running and not self.parked",
        "return not self.queue and not self.parked",
        ("engine/test_order.py::TestOrder",),
    ),
    Mutant(
        "an item without a result stays in flight",
        "_nodes/op_node.py",
        "        self.engine.lineage.drop(root)\n        self._complete(ticket)",
        "        self._complete(ticket)",
        ("metrics/test_statistics.py::test_in_flight_is_what_is_neither_delivered_nor_dropped",),
    ),
    Mutant(
        "a batch that was read stays in flight",
        "_engine/lineage.py",
        "                    pending.append((parent, 1))",
        "                    pass",
        ("engine/test_lineage.py",),
    ),
    Mutant(
        "positions that an aggregator has packed are no longer in flight",
        "_engine/lineage.py",
        "                self._num_packed += 1",
        "                pass",
        ("engine/test_lineage.py::test_what_a_gathering_has_packed_is_out_until_it_is_released",),
    ),
    Mutant(
        "an item that was read stays in flight",
        "_pipeline/iterator.py",
        "                    deliver(root)",
        "                    pass",
        ("engine/test_engine.py::test_nothing_is_lost_or_duplicated",),
    ),
    Mutant(
        "a result of a generator is not counted as a descendant",
        "_engine/groups.py",
        "pop()\n            return None\n        self.pending += 1\n",
        "pop()\n            return None\n",
        ("engine/test_lineage.py::test_an_item_is_open_while_its_generator_has_more",),
    ),
    Mutant(
        "a share that has arrived stays in flight",
        "_nodes/batched_routes.py",
        "                self.engine.lineage.drop(root)",
        "                pass",
        ("plan/test_graph.py::TestBatchedVariants::test_shares_are_joined_in_the_order_of_the_paths",),
    ),
    Mutant(
        "a batch without any items left stays in flight",
        "_nodes/batched_routes.py",
        "            self.engine.lineage.drop(batch)",
        "            pass",
        ("plan/test_graph.py::TestBatchedVariants::test_nothing_stays_in_flight",),
    ),
    Mutant(
        "a user's queue that loses an item is not found out",
        "_queues/queue_node.py",
        "        if lost:\n",
        "        if False:\n",
        ("queues/test_async_queue.py::TestFaults::test_a_queue_that_loses_or_doubles_an_item_is_named",),
    ),
    Mutant(
        "an item that comes out of a user's queue twice is taken for a wrapped item",
        "_queues/queue_node.py",
        '            raise self._fault(f"returned the same object twice',
        '            str(f"returned the same object twice',
        ("queues/test_ledger.py::test_a_loss_behind_a_double_is_told",),
    ),
    Mutant(
        "a user's queue that keeps the end of the input is waited for",
        "_queues/queue_node.py",
        "            waited += _PATIENCE",
        "            continue",
        ("queues/test_queue_node.py::test_one_with_a_store_of_its_own_is_named",),
    ),
    Mutant(
        "items of the next epoch may come out of a user's queue before the end of this one",
        "_queues/queue_node.py",
        "        if taken.epoch > self.epochs:",
        "        if False:",
        ("queues/test_queue_node.py::test_a_queue_that_loses_the_end_of_an_epoch_is_named",),
    ),
    Mutant(
        "a hook's cancellation of its task takes effect wherever something is awaited next",
        "_hooks/hook_calls.py",
        "            error = await end_cancellation(current, before) or error\n        if error is not None:\n",
        "            pass\n        if error is not None:\n",
        ("hooks/test_hook_calls.py::TestCancelling::test_functions",),
    ),
    Mutant(
        "an aggregator's call that a hook does not wait for goes on beside the next one",
        "_hooks/worker_calls.py",
        "                if self._withdraw(call) or self.engine.is_over():\n                    raise",
        "                self._abandon(call)\n                raise",
        ("hooks/test_hook_calls.py::TestTimeouts::test_an_aggregator_is_called_by_one_thread_at_a_time",),
    ),
    Mutant(
        "an item that a user's queue has wrapped is taken for a new one",
        "_queues/ledger.py",
        "next(iter(self._inside), None)",
        "None",
        ("queues/test_async_queue.py::TestFaults::test_a_queue_may_wrap_its_items",),
    ),
    Mutant(
        "a user's queue counts as empty while it holds items",
        "_queues/conveyor_node.py",
        "        return self.over",
        "        return True",
        ("queues/test_async_queue.py::test_nothing_is_lost",),
    ),
    Mutant(
        "two sources share their positions",
        "_engine/lineage.py",
        "root + self.sources",
        "root + 1",
        ("engine/test_lineage.py",),
    ),
)
