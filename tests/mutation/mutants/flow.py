"""What is in flight is counted wrong, and queues, hooks and aggregators lose track of items."""

from tests.mutation.mutants.mutant import Mutant

__all__ = ["FLOW"]

FLOW = (
    Mutant(
        "a batcher forgets the items that it holds at the end",
        "GatheringNode.__init__",
        "        self.flushed = False",
        "        self.flushed = True",
        ("TestAggregates::test_batches",),
    ),
    Mutant(
        "a stage counts as drained while its ops run",
        "OpNode.drained",
        "return not self.queue and not self.running and not self.parked",
        "return not self.queue and not self.parked",
        ("TestOrder",),
    ),
    Mutant(
        "an item without a result stays in flight",
        "OpNode.end",
        "        self.engine.lineage.drop(root)\n        self._complete(ticket)",
        "        self._complete(ticket)",
        ("test_in_flight_is_what_is_neither_delivered_nor_dropped",),
    ),
    Mutant(
        "a batch that was read stays in flight",
        "Lineage.deliver",
        "                    pending.append((parent, 1))",
        "                    pass",
        ("test_lineage.py",),
    ),
    Mutant(
        "an item that was read stays in flight",
        "PipelineIterator.__next__",
        "            out -= {root}\n",
        "",
        ("test_nothing_is_lost_or_duplicated",),
    ),
    Mutant(
        "a result of a generator is not counted as a descendant",
        "Results.next_result",
        "done:\n            return None\n        self.pending += 1\n",
        "done:\n            return None\n",
        ("test_an_item_is_open_while_its_generator_has_more",),
    ),
    Mutant(
        "a share that has arrived stays in flight",
        "BatchMergeNode.turn",
        "                self.engine.lineage.drop(root)",
        "                pass",
        ("TestBatchedVariants::test_shares_are_joined_in_the_order_of_the_paths",),
    ),
    Mutant(
        "a batch without any items left stays in flight",
        "BatchMergeNode._put_together",
        "            self.engine.lineage.drop(batch)",
        "            pass",
        ("TestBatchedVariants::test_nothing_stays_in_flight",),
    ),
    Mutant(
        "a user's queue that loses an item is not found out",
        "QueueNode.carry",
        "        if lost:\n",
        "        if False:\n",
        ("TestFaults::test_a_queue_that_loses_or_doubles_an_item_is_named",),
    ),
    Mutant(
        "a user's queue that keeps the end of the input is waited for",
        "QueueNode._watch",
        "            waited += _PATIENCE",
        "            continue",
        ("test_queue_class",),
    ),
    Mutant(
        "items of the next epoch may come out of a user's queue before the end of this one",
        "QueueNode.root_of",
        "        if taken.epoch > self.epochs:",
        "        if False:",
        ("test_a_queue_that_loses_the_end_of_an_epoch_is_named",),
    ),
    Mutant(
        "a hook's cancellation of its task takes effect wherever something is awaited next",
        "caught",
        "        error = await end_cancellation(task, before) or error",
        "        pass",
        ("TestCancelling::test_functions",),
    ),
    Mutant(
        "an aggregator's call that a hook does not wait for goes on beside the next one",
        "WorkerCalls.call_to_the_end",
        "                if self._withdraw(call) or self.engine.is_over():\n                    raise",
        "                self._abandon(call)\n                raise",
        ("TestTimeouts::test_an_aggregator_is_called_by_one_thread_at_a_time",),
    ),
    Mutant(
        "an item that a user's queue has wrapped is taken for a new one",
        "QueueContents.take",
        "next(iter(self._inside), None)",
        "None",
        ("TestFaults::test_a_queue_may_wrap_its_items",),
    ),
    Mutant(
        "a user's queue counts as empty while it holds items",
        "ConveyorNode.end_input",
        "        return self.over",
        "        return True",
        ("test_nothing_is_lost",),
    ),
    Mutant(
        "two sources share their positions",
        "Lineage.admit",
        "root + self.sources",
        "root + 1",
        ("test_lineage.py",),
    ),
)
