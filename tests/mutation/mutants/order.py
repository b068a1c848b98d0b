"""Items overtake each other, or an ordered stage holds too much or too little back."""

from tests.mutation.mutants.mutant import Mutant

__all__ = ["ORDER"]

ORDER = (
    Mutant(
        "a carried item overtakes the items in the queue",
        "FunctionNode.start",
        "            and not following.queue\n",
        "",
        ("test_a_carried_item_goes_behind_those_that_wait",),
    ),
    Mutant(
        "a pulled item overtakes the items in the queue",
        "_pull",
        "        and not first.queue\n",
        "",
        ("test_a_pulled_item_goes_behind_those_that_wait",),
    ),
    Mutant(
        "a carried result leaves the results of the next ticket behind",
        "Order.take_alone",
        "(tickets[1].done or tickets[1].results)",
        "tickets[1].done",
        ("TestOrder::test_what_a_generator_behind_a_slow_value_has_given_leaves_before_the_rest",),
    ),
    Mutant(
        "a carried result leaves before those of earlier tickets",
        "Order.take_alone",
        "        if tickets[0] is not ticket:\n            return False",
        "        if False:\n            return False",
        ("TestOrder::test_input_order_is_kept",),
    ),
    Mutant(
        "a finished ticket after a carried one is not looked at",
        "Order.take_alone",
        "if len(tickets) > 1 and (tickets[1].done or tickets[1].results):",
        "if False:",
        ("TestOrder::test_input_order_is_kept",),
    ),
    Mutant(
        "a result leaves before those of earlier tickets",
        "Order.finish",
        "        if self.tickets[0] is not ticket:",
        "        if False:",
        ("TestOrder::test_async_ops",),
    ),
    Mutant(
        "a generator's results leave before those of earlier tickets",
        "Order.add",
        "        if self.tickets[0] is ticket:\n",
        "        if True:\n",
        ("TestOrder::test_generators_in_input_order",),
    ),
    Mutant(
        "a finished ticket after the head is dropped",
        "Order.complete",
        "while tickets and tickets[0].done:",
        "if tickets and tickets[0].done:",
        ("TestOrder",),
    ),
    Mutant(
        "an item without a result keeps its ticket",
        "OpNode._complete",
        "for entry in self.order.complete(ticket):",
        "for entry in ():",
        ("TestOrder::test_drops_and_failures_leave_no_gap",),
    ),
    Mutant(
        "an ordered stage starts however much waits for an earlier item",
        "Order.has_place",
        "return len(self.tickets) < limit + AHEAD",
        "return True",
        ("test_statistics_say",),
    ),
    Mutant(
        "generators with later tickets gather results without bound",
        "OpNode.may_emit",
        "return self.order.buffered + under_way < self.concurrency + AHEAD",
        "return True",
        ("TestOrder::test_generators_behind_a_slow_one_pause",),
    ),
    Mutant(
        "the end of an epoch overtakes the items that are worked on",
        "OpNode.can_start",
        "return not self.running and self.has_room(0)",
        "return self.has_room(0)",
        ("test_continuous.py",),
    ),
    Mutant(
        "a batch goes on into the next epoch",
        "CollateNode.turn",
        "                self._end_batch()\n                self.pass_mark()",
        "                self.pass_mark()",
        ("test_batches_never_span_epochs",),
    ),
    Mutant(
        "the next epoch goes on with the exhausted iterator of the last one",
        "Source.end_epoch",
        "        self.iterator = None\n        if self.is_wanted()",
        "        if self.is_wanted()",
        ("test_each_iterator_is_one_epoch",),
    ),
    Mutant(
        "a merge always begins at its first branch",
        "MergeNode.turn",
        "self.following = (index + 1) % self.branches",
        "pass",
        ("test_merge_and_workers_take_turns",),
    ),
    Mutant(
        "a merge passes the end of an epoch on once per branch",
        "MergeNode._next_branch",
        "if entries and entries[0] is not MARK:",
        "if entries:",
        ("test_a_merge_waits_for_the_end_in_every_branch",),
    ),
    Mutant(
        "a batch is put together before all of its shares have come",
        "BatchMergeNode._complete_head",
        "any(share.pending or share.lost for share in head[1])",
        "all(share.pending for share in head[1])",
        ("TestBatchedVariants",),
    ),
    Mutant(
        "an item enters an ordered stage however much waits for an earlier one",
        "Channel.verdict",
        "if order is not None and not order.has_place(concurrency):",
        "if False:",
        ("test_statistics_say",),
    ),
)
