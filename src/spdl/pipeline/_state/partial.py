"""Items whose results were consumed in part: what is known of them from an earlier run, and what a state says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl._ranges import Ranges
from spdl.pipeline._state.format import runs_from_state, runs_to_state
from spdl.pipeline._state.origins import (
    AggregatorHistory,
    AggregatorLeftover,
    AggregatorResult,
    Form,
    Gathering,
    Group,
    RepeatedResult,
    Result,
    Root,
)

if TYPE_CHECKING:
    from spdl.pipeline._state.lineage import Lineage, Unconsumed

# An item as a state names it: a position, given as its root; ``{"of": item, "result": number}``; or, with the index of
# a batch in a list, ``{"batch": index}``. A batch is a list of items; there, [first, count] are contiguous positions.
# Before the items comes its form, if it needs no aggregator.
Term: TypeAlias = "int | dict[str, Any]"


class Member(NamedTuple):
    """The place of an item in a batch that has to be made again with the same items."""

    batch: Batch
    place: int


class Record:
    """The record of one item: its consumed results, and the batch that it went into, if that has to be made again.

    Once it is ``met``, it has become results again, which the lineage knows.
    """

    __slots__ = ("done", "member", "met", "results")

    def __init__(self) -> None:
        self.done = Ranges()
        self.results: dict[int, Record] = {}
        self.member: Member | None = None
        self.met = False

    def meet(self) -> None:
        self.met = True

    def result(self, number: int) -> Record:
        return self.results.setdefault(number, Record())

    def join(self, batch: Batch, index: int) -> None:
        self.member = Member(batch, index)


class Batch:
    """A batch whose results were consumed in part: it has to be made again of the same items in the same order."""

    __slots__ = ("form", "record", "size")

    def __init__(self, size: int, form: Form | None) -> None:
        self.size = size
        self.form = form
        self.record = Record()


class _Partial(NamedTuple):
    """An item, the numbers of its results that were consumed, and the positions that it was made of."""

    item: Term
    done: list[int]
    roots: frozenset[int]


class Restored:
    """All that is known from an earlier run.

    Attributes:
        roots: The records of the source's items, by their roots.
        terms: The items of each batch of the state.
        made: Each batch of the state.
        batches: The batches that are still to be made again.
    """

    __slots__ = ("_partial", "batches", "made", "roots", "terms")

    def __init__(self, batches: list[list[Any]], partial: list[tuple[Term, list[int]]], sources: int) -> None:
        self.roots: dict[int, Record] = {}
        forms = [_form_of(batch) for batch in batches]
        self.terms = [
            _spread(batch if form is None else batch[1:], sources) for batch, form in zip(batches, forms, strict=True)
        ]
        self.made = [Batch(len(batch), form) for batch, form in zip(self.terms, forms, strict=True)]
        self.batches = list(self.made)
        for batch, members in zip(self.made, self.terms, strict=True):
            for index, member in enumerate(members):
                self._record(member).join(batch, index)
        self._partial: list[_Partial] = []
        for item, done in partial:
            numbers = runs_from_state(done)
            record = self._record(item)
            for number in numbers:
                record.done.add(number, number + 1)
            self._partial.append(_Partial(item, numbers, frozenset(self._roots_of(item))))

    def _record(self, item: Term) -> Record:
        if isinstance(item, int):
            return self.roots.setdefault(item, Record())
        if "batch" in item:
            return self.made[item["batch"]].record
        return self._record(item["of"]).result(item["result"])

    def _roots_of(self, item: Term) -> set[int]:
        if isinstance(item, int):
            return {item}
        if "batch" in item:
            return {root for member in self.terms[item["batch"]] for root in self._roots_of(member)}
        return self._roots_of(item["of"])

    def learn(self, root: int, results: Iterable[tuple[int, ...]]) -> None:
        """Note that results of an item were consumed elsewhere, before it is handed out here.

        Each result's number comes after the numbers of the results that it was made of.
        """
        record = self.roots[root] = Record()
        for *path, number in results:
            of = record
            for each in path:
                of = of.result(each)
            of.done.add(number, number + 1)

    def forget(self, root: int) -> None:
        self.roots.pop(root, None)

    def made_again(self, batch: Batch) -> None:
        if batch in self.batches:
            self.batches.remove(batch)

    def pending(self, out: Collection[int]) -> list[tuple[Term, list[int]]]:
        """Return the items that have not been met again, and their consumed results.

        Results of positions that are not ``out`` will not come again.
        """
        return [
            (item, done) for item, done, roots in self._partial if not self._record(item).met and roots.issubset(out)
        ]


def _form_of(batch: list[Any]) -> Form | None:
    first = batch[0] if batch else None
    return first if first in ("item", "list") else None


def _spread(batch: list[Any], sources: int) -> list[Term]:
    members: list[Term] = []
    for part in batch:
        if isinstance(part, list):
            first, count = part
            members += range(first, first + count * sources, sources)
        else:
            members.append(part)
    return members


def restored_from_state(state: dict[str, Any], sources: int) -> Restored | None:
    """Return a state's records of items whose results were consumed in part; None if there are no such items."""
    if not state:
        return None
    return Restored(state.get("batches", []), [(each["item"], each["done"]) for each in state["items"]], sources)


class _Writer:
    """Names items, and lists the batches that the names refer to."""

    def __init__(self, lineage: Lineage) -> None:
        self.sources = lineage.sources
        self._restored = lineage.restored
        self.batches: list[list[Any]] = []
        self._indices: dict[Any, int] = {}
        self._by_content: dict[str, int] = {}

    def name(self, root: Root) -> Term | None:
        """Return the name of an item; None for one that has none, since it is a part of a batch or of no source."""
        while type(root) is Group and len(root.parents) == 1:
            root = root.parents[0]
        if not isinstance(root, Group):
            return root
        if isinstance(root, Result):
            results = root.results
            of = self.name(results.parents[0])
            return None if of is None else {"of": of, "result": root.number}
        if not isinstance(root, Gathering):
            return None
        index = self._indices.get(root)
        if index is None and isinstance(root, AggregatorResult) and root.place is not None:
            index = self._indices[root] = self.copy_batch(root.place)
        if index is None:
            names = [self.name(parent) for parent in root.parents]
            nameless = not names and not isinstance(root, AggregatorResult)
            if None in names or nameless:
                return None
            if root.form == "nest":
                raise RuntimeError(
                    "The state cannot be exact at this moment: an aggregator with `held_back()` returned a result that "
                    "is not a list of its items, and only a part of it was received. Take the state one result later, "
                    "make the aggregator return lists, or give it `state_dict()` and `load_state_dict()`."
                )
            index = self._add(root, names, root.form)
        return {"batch": index}

    def referred(self) -> list[AggregatorResult]:
        return [key for key in self._indices if isinstance(key, AggregatorResult)]

    def copy(self, item: Term) -> Term:
        """Return the name of an item that the state of an earlier run had named."""
        if isinstance(item, int):
            return item
        if "of" in item:
            return {**item, "of": self.copy(item["of"])}
        return {"batch": self.copy_batch(item["batch"])}

    def copy_batch(self, place: int) -> int:
        """Return the place of a batch that was at a place in the state of an earlier run."""
        index = self._indices.get(place)
        if index is None:
            assert self._restored is not None
            names = list(map(self.copy, self._restored.terms[place]))
            index = self._add(place, names, self._restored.made[place].form)
        return index

    def _add(self, key: object, names: Sequence[Any], form: Form | None) -> int:
        parts: list[Any] = [] if form is None else [form]
        following = None
        for name in names:
            if not isinstance(name, int):
                parts.append(name)
                following = None
            elif name == following:
                parts[-1][1] += 1
                following += self.sources
            else:
                parts.append([name, 1])
                following = name + self.sources
        # The same batch may be known from the lineage and from an earlier run. One without items is only itself.
        content = repr(parts or key)
        index = self._by_content.get(content)
        if index is None:
            index = self._by_content[content] = len(self.batches)
            self.batches.append(parts)
        self._indices[key] = index
        return index


def state_of(unconsumed: Unconsumed, lineage: Lineage) -> dict[str, Any]:
    """Return the items whose results were consumed in part, and what aggregators have left over, as a state holds them.

    Called with the engine's lock held. Raises a RuntimeError if the items of a result that has to be made again cannot
    be named.
    """
    restored = lineage.restored
    if not unconsumed.results and restored is None and not lineage.histories:
        return {}
    writer = _Writer(lineage)
    items: list[dict[str, Any]] = []
    for results, done in unconsumed.results:
        name = writer.name(results.parents[0])
        if name is not None:
            items.append({"item": name, "done": runs_to_state(done)})
    if restored is not None:
        for item, done in restored.pending(frozenset(unconsumed.roots)):
            items.append({"item": writer.copy(item), "done": runs_to_state(done)})
    # The states of later stages refer to the states of earlier ones.
    histories = [_history_state(writer, history, unconsumed) for history in reversed(lineage.histories)][::-1]
    state: dict[str, Any] = {}
    if items or writer.batches:
        state["partial"] = {"items": items, "batches": writer.batches} if writer.batches else {"items": items}
    if histories:
        state["aggregators"] = histories
    return state


def _history_state(writer: _Writer, history: AggregatorHistory, unconsumed: Unconsumed) -> dict[str, Any]:
    cut = history.cut(unconsumed.aggregated, writer.referred())
    again: list[list[Any]] = []
    for result in cut.again:
        name = writer.name(result)
        if not isinstance(name, dict):
            raise RuntimeError(  # noqa: TRY004 - the caller has given nothing.
                "The state cannot be exact at this moment: an aggregator has made a result of items of a region or a "
                "merge that gathers, a later result was received and this one was not, and it is not known which items "
                "these were. Put the aggregator before that stage, or make the later stages keep the order."
            )
        again.append([name["batch"], *result.leftover])
    again += [[writer.copy_batch(each.place), *each.leftover] for each in history.again]
    state: dict[str, Any] = cut.leftover._asdict()
    if again:
        state["again"] = again
    return state


def histories_from_state(
    states: list[dict[str, Any]], number: int, restored: Restored | None
) -> list[tuple[AggregatorLeftover, list[RepeatedResult]]]:
    """Return the leftovers of ``number`` aggregators and the results that they have to make again.

    Raises a ValueError if they are other aggregators' than those of `state_of`.
    """
    if len(states) != number:
        raise ValueError(
            f"it holds what {len(states)} aggregators have left over, and this pipeline has {number} with "
            "`state_dict` and `load_state_dict`"
        )
    histories: list[tuple[AggregatorLeftover, list[RepeatedResult]]] = []
    for state in states:
        again = []
        for place, left, epoch in state.get("again", []):
            assert restored is not None
            again.append(RepeatedResult(place, restored.made[place], AggregatorLeftover(left, epoch)))
        histories.append((AggregatorLeftover(state["left"], state["epoch"]), again))
    return histories
