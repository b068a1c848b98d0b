"""Stages that gather items: the built-in batcher, and those that run a user's aggregator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._declare.records import Aggregator
from spdl.pipeline._engine.channel import EOF, EPOCH_END, MARK
from spdl.pipeline._engine.node import Node
from spdl.pipeline._report.counters import STARVED
from spdl.pipeline._stages.held_back import (
    AggregatorRegrouping,
    GivenItem,
    HiddenStateCheck,
    Kept,
    Regrouped,
    Regrouping,
    has_leftover,
    made_again,
    pack,
    unpack,
)
from spdl.pipeline._state.origins import AggregatorResult, Gathering, Group, RepeatedResult, Root
from spdl.pipeline._state.partial import Record, Restored
from spdl.pipeline._world import perf_counter, thread_time

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine


class GatheringNode(Node):
    """The common part of both kinds: items in hand, and a flush once the input has ended."""

    __slots__ = ("drop_last", "flush_due", "flushed", "gathering", "roots")

    def __init__(self, engine: Engine, name: str, op: Any, *, drop_last: bool) -> None:
        super().__init__(engine, name, op, concurrency=1)
        self.drop_last = drop_last
        self.flush_due = False
        # With drop_last, too: the rest is dropped then, and an aggregator, which may serve another pipeline, starts
        # that one afresh.
        self.flushed = False
        # The origins of the items in hand, and the list that the roots of new ones are appended to.
        self.gathering = self._begin_gathering()
        self.roots: list[Root] = self.gathering.parents

    def drained(self) -> bool:
        return super().drained() and not self.flush_due

    def end_input(self) -> bool:
        if self.flushed:
            self._release_roots()
            return True
        self.flush_due = True
        self.engine.add_turns()
        return False

    def _begin_flush(self) -> None:
        self.flush_due = False
        self.flushed = True
        self.engine.remove_turns()

    def _release_roots(self) -> None:
        gathering = self._take_gathering()
        if not (self.engine.failures or self.engine.stopping):
            # Else the input has not come to its end: a resumed run gathers these items again.
            self.engine.lineage.drop(gathering)

    def _take_gathering(self) -> Group:
        gathering, self.gathering = self.gathering, self._begin_gathering()
        self.roots = self.gathering.parents
        return gathering

    def _begin_gathering(self, record: Record | None = None) -> Gathering:
        return Gathering(record)

    def _emit(self, value: Any) -> None:
        self.counters.emitted += 1
        gathering = self._take_gathering()
        if self.engine.budget is not None:
            self.engine.budget.move(gathering.parents, gathering)
            if self.makes_items:
                self.engine.budget.note(self.output, gathering, value)
        self.engine.emit(self, (gathering, value))


class CollateNode(GatheringNode):
    """Gathers lists of ``n`` items. No user code is involved, so it works under the lock."""

    __slots__ = ("batch", "n", "offers", "regrouping")

    on_workers = False

    def __init__(self, engine: Engine, name: str, n: int, *, drop_last: bool) -> None:
        super().__init__(engine, name, None, drop_last=drop_last)
        self.n = n
        self.batch: list[Any] = []
        self.offers = True
        # The batches of an earlier run that have to be made again with the same items.
        self.regrouping: Regrouping | None = None

    def regroup(self, restored: Restored) -> None:
        self.regrouping = Regrouping(restored)
        self.offers = False

    def ready(self) -> bool:
        if self.cancelled or not (self.queue or self.flush_due):
            return False
        if self.flush_due:
            # Dropped items need no place, and a pipeline that is no longer read must end.
            return self.drop_last or self.has_room(0)
        passes_on = self.queue[0] is MARK or len(self.batch) + 1 == self.n or self.regrouping is not None
        return not passes_on or self.has_room(0)

    def offer(self, root: Root, value: Any) -> bool:
        if self.cancelled or len(self.batch) + 1 == self.n:
            return False
        self.roots.append(root)
        self.batch.append(value)
        counters = self.counters
        if counters.completed >= counters.sample_at:
            counters.note_arrival()
        counters.completed += 1
        return True

    def turn(self) -> None:  # noqa: C901 - one step after the other, without a call for each item.
        # Its work takes no time, so it is short of items whenever it is not short of room.
        counters = self.counters
        if counters.waiting_for != STARVED:
            counters.wait(STARVED)
        if self.flush_due:
            self._begin_flush()
            self._end_batch()
            return
        if self.regrouping is not None:
            self._end_regrouping(self.regrouping)
        queue, batch = self.queue, self.batch
        while queue:
            if queue[0] is MARK:
                if not self.has_room(0):
                    break
                self._end_batch()
                self.pass_mark()
                batch = self.batch
                continue
            if (len(batch) + 1 == self.n or self.regrouping is not None) and not self.has_room(0):
                break
            root, value = self.dequeue()
            if self.regrouping is not None and self._regrouped(root, value):
                continue
            self.roots.append(root)
            batch.append(value)
            if counters.completed >= counters.sample_at:
                counters.note_arrival()
            counters.completed += 1
            if len(batch) == self.n:
                self._pass_on()
                batch = self.batch
        # All of them were taken at once.
        self.input.counters.took_uncounted(perf_counter(), self.input.excess(), item=False)

    def _end_regrouping(self, regrouping: Regrouping) -> None:
        if regrouping.is_over():
            self.regrouping = None
            self.offers = True

    def _regrouped(self, root: Root, value: Any) -> bool:
        assert self.regrouping is not None
        self.counters.completed += 1
        found = self.regrouping.take(self.engine.lineage.record_of(root), root, value)
        if found is None:
            self.counters.completed -= 1
            return False
        if found.complete():
            self._pass_on_again(found)
        return True

    def _pass_on_again(self, found: Regrouped) -> None:
        assert self.regrouping is not None
        gathering = self._begin_gathering(found.batch.record)
        gathering.parents.extend(found.roots())
        self.counters.emitted += 1
        if self.engine.budget is not None:
            self.engine.budget.move(gathering.parents, gathering)
        self.engine.emit(self, (gathering, found.values()))
        self.regrouping.end(found)

    def _end_batch(self) -> None:
        if self.regrouping is not None:
            # Not all members came, since an op has dropped one this time.
            for found in self.regrouping.begun():
                self._pass_on_again(found)
        if self.drop_last:
            self.engine.drops.extend(self.batch)
            self.batch = []
            self._release_roots()
        elif self.batch:
            self._pass_on()

    def _pass_on(self) -> None:
        batch, self.batch = self.batch, []
        self._emit(batch)

    def discard(self) -> list[Any]:
        batch, self.batch = self.batch, []
        if self.regrouping is not None:
            batch += [value for found in self.regrouping.begun() for value in found.values()]
        return [*super().discard(), *batch]


class AggregatorCall(NamedTuple):
    """One call of an aggregator: to accumulate the item in hand, or to flush at the end of an epoch or of the input."""

    function: Callable[[Any], Any]
    hand: list[Any]
    accumulates: bool = False
    # True if its result is passed on.
    keeps: bool = True
    # True if it is the flush of an epoch, or of all.
    ends_epoch: bool = False


# No state should be loaded.
_NOTHING = object()


class AggregateNode(GatheringNode):
    """Calls the user's aggregator, from one thread at a time."""

    __slots__ = (
        "ends_epoch",
        "flushed_at_mark",
        "hidden_state",
        "history",
        "kept",
        "left",
        "loading",
        "recognises",
        "regrouping",
    )

    makes_items = True

    op: Aggregator[Any, Any]

    def __init__(self, engine: Engine, name: str, op: Aggregator[Any, Any], *, drop_last: bool) -> None:
        # Its results, if it says what it has left over. `left` is its answer after the call that runs, and `loading`
        # the state to load into it before the next one.
        self.history = engine.lineage.begin_history() if has_leftover(op) else None
        self.left: Any = _NOTHING
        self.loading: Any = _NOTHING
        self.ends_epoch = False
        super().__init__(engine, name, op, drop_last=drop_last)
        # The items of the epoch that ends at the head of the queue were flushed.
        self.flushed_at_mark = False
        # Its items in hand, if it may keep some of them past a result.
        tells = self.history is None and type(op).held_back is not Aggregator.held_back
        self.kept = Kept() if tells else None
        # Finds items that it keeps without saying so.
        self.hidden_state = None if self.history is not None else HiddenStateCheck(op, tells=tells)
        # The batches of an earlier run that have to be made again, or else whether these come by themselves.
        self.regrouping: AggregatorRegrouping | None = None
        self.recognises = False

    def note_state(self) -> None:
        if self.kept is not None:
            self.kept.begin(self.engine.epochs_read)
        if self.hidden_state is not None:
            self.hidden_state.begin()
        elif self.history is not None and self.history.leftover is None:
            self.history.begin(self._leftover(), self.engine.epochs_read)

    def inexact(self) -> str | None:
        return (
            None
            if self.hidden_state is None or self.hidden_state.found is None
            else f"Stage {self.name!r} {self.hidden_state.found}"
        )

    def inexact_elsewhere(self) -> str | None:
        return (
            f"Stage {self.name!r} runs in a region, where a state cannot see what it keeps past a result. Put it "
            "before or after the region."
        )

    def regroup(self, restored: Restored) -> None:
        if self.history is not None:
            self.regrouping = AggregatorRegrouping(restored) if self.history.again else None
        elif self.kept is None and _in_order(self):
            # Then the same batches come by themselves, and only have to be recognised.
            self.recognises = True
        else:
            self.regrouping = AggregatorRegrouping(restored)

    def keeps_items(self) -> Kept | None:
        return self.kept

    def start_afresh(self) -> None:
        # Items that a stopped pipeline has left in it would come into this one's batches.
        self.op.flush()

    def keeps_order(self) -> bool:
        return self.kept is None and self.history is None

    def drops_held_back(self) -> bool:
        """Return whether items that it keeps past a result may be dropped at the end of an epoch."""
        return self.drop_last and self.kept is not None

    def ready(self) -> bool:
        passes_on = not (self.flush_due and self.drop_last)
        waits = bool(self.flush_due or self.queue or self._regroups_now()) and not (self.cancelled or self.running)
        return waits and (not passes_on or self.has_room(0))

    def _regroups_now(self) -> bool:
        return self.regrouping is not None and self.regrouping.is_due()

    def drained(self) -> bool:
        return super().drained() and not self._regroups_now()

    def end_input(self) -> bool:
        if self.regrouping is not None and self.regrouping.release():
            self.engine.add_turns()
            return False
        return super().end_input()

    def turn(self) -> None:
        call = self.next_call()
        if call is not None:
            self._make(call)

    def next_call(self) -> AggregatorCall | None:
        """Return the aggregator's next call; None if the end of an epoch was passed on. Takes the slot."""
        call: AggregatorCall | None
        if self.flush_due:
            call = self._flush_alone()
            if call is None:
                self._begin_flush()
                call = self._flush_epoch(EOF)
        elif self.regrouping is not None:
            call = self._next_regrouped(self.regrouping)
        elif not self.at_mark():
            call = self._call_with(*self.dequeue())
        else:
            call = self._next_at_mark()
        if call is not None:
            self.slot_taken()
        return call

    def _next_at_mark(self) -> AggregatorCall | None:
        if not self.flushed_at_mark:
            call = self._flush_alone()
            if call is None:
                self.flushed_at_mark = True
                call = self._flush_epoch(EPOCH_END)
            return call
        self.flushed_at_mark = False
        self._release_roots()
        self.pass_mark()
        return None

    def _flush_epoch(self, end: object) -> AggregatorCall:
        history = self.history
        if history is not None and history.leftover is not None:
            if history.leftover.epoch > history.epoch:
                # It was flushed in an earlier run.
                if end is EOF:
                    # No item follows that would load it, and users look at what their aggregator has counted.
                    self._load_leftover()
                    return AggregatorCall(self._load_last, [end], ends_epoch=True)
                return AggregatorCall(_do_nothing, [end], ends_epoch=True)
            self._load_leftover()
        return AggregatorCall(self._flush, [end], keeps=not self.drop_last, ends_epoch=True)

    def _flush_alone(self) -> AggregatorCall | None:
        """Return the flush that makes a result of an earlier run again, if that result had no items after the last."""
        if self.history is None or (restored := self.engine.lineage.restored) is None:
            return None
        for again in self.history.again:
            if not again.batch.size and again.leftover.epoch <= self.history.epoch and again.batch in restored.batches:
                restored.made_again(again.batch)
                self._begin_again(again)
                return AggregatorCall(self._flush, [EPOCH_END])
        return None

    def _begin_again(self, again: RepeatedResult) -> None:
        self.gathering = self._begin_gathering(again.batch.record)
        self.roots = self.gathering.parents
        self.loading = again.leftover.left

    def _load_leftover(self) -> None:
        assert self.history is not None
        self.loading = self.history.take_leftover()

    def _begin_gathering(self, record: Record | None = None) -> Gathering:
        return super()._begin_gathering(record) if self.history is None else AggregatorResult(self.history, record)

    def _call_with(self, root: Root, value: Any) -> AggregatorCall:
        if self.history is not None:
            if self.history.leftover is not None and self.gathering.record is None:
                self._load_leftover()
        elif self.kept is not None:
            self.kept.add(value)
        self.roots.append(root)
        return AggregatorCall(self._accumulate, [value], accumulates=True)

    def _next_regrouped(self, regrouping: AggregatorRegrouping) -> AggregatorCall | None:
        """Return the next call while batches of an earlier run should be made again; None if there is none yet."""
        engine = self.engine
        if not regrouping.is_due():
            if not self.at_mark():
                root, value = self.dequeue()
                regrouping.take(engine.lineage.record_of(root), root, value)
            elif not regrouping.release():
                # The epoch ends, whatever may be made again in the next one.
                return self._next_at_mark()
            if regrouping.is_due():
                engine.add_turns()
            return None
        step = regrouping.next_step()
        if not regrouping.is_due():
            engine.remove_turns()
        if regrouping.is_over():
            self.regrouping = None
        if isinstance(step, Regrouped):
            self._pass_on_again(step)
            return None
        return self._take_step(step)

    def _take_step(self, step: GivenItem | None) -> AggregatorCall | None:
        if step is None:
            # The batch is complete, and has not come by itself.
            return AggregatorCall(self._flush_again, [EPOCH_END]) if self.roots else None
        if step.record is not None:
            if self.history is not None:
                self._begin_again(self.history.again_of(step.record))
            else:
                # The aggregator is empty now: nothing else was given to it.
                self.gathering = self._begin_gathering(step.record)
                self.roots = self.gathering.parents
        return self._call_with(step.root, step.value)

    def _pass_on_again(self, found: Regrouped) -> None:
        """Pass on a result of an earlier run, made of the same items without the aggregator."""
        values = found.values()
        in_hand = self.gathering
        self.gathering = self._begin_gathering(found.batch.record)
        self.gathering.note_form(found.batch.form)
        self.gathering.parents.extend(found.roots())
        self.counters.completed += len(values)
        self._emit(values if found.batch.form == "list" else values[0])
        # The aggregator may still hold items.
        self.gathering = in_hand
        self.roots = in_hand.parents

    def _accumulate(self, item: Any) -> Any:
        self._load()
        result = self.op.accumulate(item)
        if result is not None:
            if self.history is not None:
                self.left = self._leftover()
            elif self.kept is not None and not self.kept.note(result, self.op.held_back()):
                self._found().note_unproven("a result was not made of exactly the items that it does not keep")
            if self.hidden_state is not None:
                self.hidden_state.look(() if self.kept is None else self.kept.held())
        return result

    def _found(self) -> HiddenStateCheck:
        assert self.hidden_state is not None
        return self.hidden_state

    def _flush(self, _end: object) -> Any:
        result = self._flushed()
        if self.kept is not None and not self.kept.note_flushed(result) and not self.drop_last:
            self._found().note_unproven("its `flush` did not return all that it kept")
            if self.kept.is_resumed():
                # Too late for a warning: the items received before the cut decide which are lost here.
                raise RuntimeError(self.inexact())
        return result

    def _flush_again(self, _end: object) -> Any:
        """Flush the items of a result of an earlier run that was received in part."""
        result = self._flushed()
        if self.kept is not None:
            self.kept.note_flushed(result)
        if result is None:
            raise RuntimeError(
                f"The aggregator of stage {self.name!r} returns nothing for the items of a result that was received in "
                "part before the state was taken, so the rest would be lost. Give it `state_dict()` and "
                "`load_state_dict(state)`, or make it return the same result for the same items."
            )
        return result

    def _flushed(self) -> Any:
        self._load()
        result = self.op.flush()
        if self.history is not None:
            self.left = self._leftover()
        return result

    def _load(self) -> None:
        if self.loading is not _NOTHING:
            left, self.loading = self.loading, _NOTHING
            op: Any = self.op
            op.load_state_dict(unpack(left))

    def _load_last(self, _end: object) -> None:
        self._load()
        self.left = self._leftover()

    def _leftover(self) -> Any:
        op: Any = self.op
        return pack(op.state_dict(), self.name)

    def _make(self, call: AggregatorCall) -> None:
        """Call the user's code with the items in hand, which are dropped without the lock."""
        engine = self.engine
        engine.release_to_user()
        if engine.stopping:
            engine.lock.acquire()
            engine.drops.append(call)
            self.slot_freed()
            return
        cpu, start = thread_time(), perf_counter()
        failure: BaseException | None = None
        result = None
        try:
            result = call.function(call.hand.pop())
        except BaseException as error:  # noqa: BLE001 - what it had gathered is lost, so the pipeline fails.
            failure = error
        end, cpu = perf_counter(), thread_time() - cpu
        engine.lock.acquire()
        counters = self.counters
        counters.busy_seconds += end - start
        counters.add_cpu(end - start, cpu)
        if failure is None:
            counters.times.add(end - start)
            counters.steps += not call.accumulates
        else:
            counters.other_seconds += end - start
            counters.steps -= call.accumulates
        self.conclude(call, result, failure)

    def conclude(self, call: AggregatorCall, result: Any, failure: BaseException | None) -> None:
        engine = self.engine
        self.slot_freed()
        self.counters.completed += call.accumulates
        if failure is not None:
            self.counters.failed += 1
            engine.drops.append(result)
            engine.fail(self, self.roots[-1] if self.roots else None, failure)
        elif result is not None and call.keeps and not (self.cancelled or engine.stopping):
            if self.kept is None:
                self._emit(result)
            else:
                self._emit_without_kept(self.kept, result, flushed=not call.accumulates)
        else:
            engine.drops.append(result)
        # Items that are in no result are out until the end of the epoch is passed on.
        self.ends_epoch = call.ends_epoch
        if self.ends_epoch and not self.roots:
            self._end_epoch()

    def _end_epoch(self) -> None:
        self.ends_epoch = False
        if self.history is not None:
            self.history.end_epoch(None if self.left is _NOTHING else self.left)

    def _emit(self, value: Any) -> None:
        if self.history is not None:
            assert isinstance(self.gathering, AggregatorResult)
            self.history.emitted(self.gathering, self.left)
        if self.recognises:
            # With the members of a long batch, which are packed in the order of the source.
            batch = made_again(map(self.engine.lineage.record_of, self.gathering.parents))
            if batch is not None:
                self.gathering.recognise(batch.record)
        super()._emit(value)

    def _emit_without_kept(self, kept: Kept, result: Any, *, flushed: bool) -> None:
        """Pass on a result, and keep the roots of the items that the aggregator holds back."""
        self.gathering.note_form(kept.form)
        passed, held, dropped = kept.divide(self.roots, flushed=flushed)
        self.engine.drops.extend(dropped)
        self.gathering.parents[:] = passed
        self._emit(result)
        self.roots.extend(held)

    def _release_roots(self) -> None:
        if self.kept is not None:
            # Items that no result contained were dropped by the flush.
            self.engine.drops.extend(self.kept.end_epoch())
        if self.ends_epoch:
            self._end_epoch()
        super()._release_roots()

    def let_go(self) -> list[Any]:
        return [*super().let_go(), *([] if self.hidden_state is None else self.hidden_state.let_go())]

    def discard(self) -> list[Any]:
        dropped = super().discard()
        # A call that runs looks for its items there. The last one discards once more.
        if self.kept is not None and not self.running:
            dropped += self.kept.let_go()
        if self.regrouping is not None:
            if self.regrouping.is_due():
                self.engine.remove_turns()
            dropped += self.regrouping.let_go()
        return dropped


def _do_nothing(_end: object) -> None:
    """Stand for the flush of an epoch that was flushed in an earlier run."""


def _in_order(node: Node) -> bool:
    """Return whether a stage's items come in the order of the source."""
    while len(node.feeders) == 1:
        feeder = node.feeders[0]
        if not isinstance(feeder, Node):
            return True
        if not feeder.keeps_order():
            return False
        node = feeder
    return False
