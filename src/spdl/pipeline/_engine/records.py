"""What is known from an earlier run of items whose results were consumed in part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .runs import Runs, runs_from_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .groups import Form

__all__ = ["Batch", "Member", "Record", "Restored", "Term", "restored_from_state"]

# An item as a state names it: a position, given as its root; ``{"of": item, "result": number}``; or, with the index of
# a batch in a list, ``{"batch": index}``. A batch is a list of items; there, [first, count] are contiguous positions.
# Before the items comes its form, if it needs no aggregator.
Term: TypeAlias = "int | dict[str, Any]"

# So often may results of results be named; no graph has that many stages.
_DEEPEST = 500


class Member(NamedTuple):
    """The place of an item in a batch that has to be made again as it was."""

    batch: Batch
    place: int


class Record:
    """What is known of one item.

    Attributes:
        done: The numbers of those of its results that were consumed.
        results: What is known of its other results.
        member: The batch that it went into, if that has to be made again.
        met: Whether the item has become results again, which from then on are known from the lineage.
    """

    __slots__ = ("done", "member", "met", "results")

    def __init__(self) -> None:
        self.done = Runs()
        self.results: dict[int, Record] = {}
        self.member: Member | None = None
        self.met = False

    def meet(self) -> None:
        """Note that the item becomes results again."""
        self.met = True

    def result(self, number: int) -> Record:
        """Return the record of one result."""
        return self.results.setdefault(number, Record())

    def join(self, batch: Batch, index: int) -> None:
        """Note the batch that it went into."""
        self.member = Member(batch, index)


class Batch:
    """A batch of which some results were consumed: it has to be made again of the same items in the same order."""

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
        batches: The batches that are still to be made again.
    """

    __slots__ = ("_batches", "_made", "_partial", "batches", "roots")

    def __init__(self, batches: list[list[Any]], partial: list[tuple[Term, list[int]]], sources: int) -> None:
        self.roots: dict[int, Record] = {}
        forms = [_form_of(batch) for batch in batches]
        self._batches = [
            _spread(batch if form is None else batch[1:], sources) for batch, form in zip(batches, forms, strict=True)
        ]
        self._made = [Batch(len(batch), form) for batch, form in zip(self._batches, forms, strict=True)]
        self.batches = list(self._made)
        for batch, members in zip(self._made, self._batches, strict=True):
            for index, member in enumerate(members):
                self._record(member).join(batch, index)
        self._partial: list[_Partial] = []
        for item, done in partial:
            numbers = runs_from_state(done)
            record = self._record(item)
            if record.done:
                raise ValueError("a partly consumed item is named twice")
            for number in numbers:
                record.done.add(number)
            self._partial.append(_Partial(item, numbers, frozenset(self._roots_of(item))))

    def _record(self, item: Term) -> Record:
        if isinstance(item, int):
            return self.roots.setdefault(item, Record())
        if "batch" in item:
            return self._made[item["batch"]].record
        return self._record(item["of"]).result(item["result"])

    def _roots_of(self, item: Term) -> set[int]:
        if isinstance(item, int):
            return {item}
        if "batch" in item:
            return {root for member in self._batches[item["batch"]] for root in self._roots_of(member)}
        return self._roots_of(item["of"])

    def learn(self, root: int, results: Iterable[tuple[int, ...]]) -> None:
        """Note that results of an item were consumed elsewhere, before it is handed out here.

        Args:
            root: The item's root.
            results: Each result by its number, after those of the results that it was made of.
        """
        record = self.roots[root] = Record()
        for *path, number in results:
            of = record
            for each in path:
                of = of.result(each)
            of.done.add(number)

    def batch(self, index: int) -> Batch:
        """Return one of the batches of the state, by its place there."""
        return self._made[index]

    def terms(self) -> list[list[Term]]:
        """Return the items of the batches of the state."""
        return self._batches

    def forget(self, root: int) -> None:
        """Forget what is known of an item, since it is gone."""
        self.roots.pop(root, None)

    def made_again(self, batch: Batch) -> None:
        """Note that a batch was made again."""
        if batch in self.batches:
            self.batches.remove(batch)

    def pending(self, out: Collection[int]) -> list[tuple[list[list[Term]], Term, list[int]]]:
        """Return what has not been met again: the batches that a name refers to, the item, and its consumed results.

        Args:
            out: The roots of the positions that are out. What is made of others will not come again.
        """
        return [
            (self._batches, item, done)
            for item, done, roots in self._partial
            if not self._record(item).met and roots.issubset(out)
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


def restored_from_state(state: object, sources: int, out: Collection[int]) -> Restored | None:
    """Return what a state says of items whose results were consumed in part; None if there are none.

    Args:
        state: What `state_of` has written of them.
        sources: How many sources there are.
        out: The roots of the positions that are out: all of these items are made of them.

    Raises:
        ValueError: If it is something else.
    """
    if not isinstance(state, dict):
        raise ValueError("the partly consumed items are no dict")  # noqa: TRY004 - a truncated state is a bad value.
    if not state:
        return None
    batches, items = state.get("batches", []), state.get("items")
    if not isinstance(batches, list) or not isinstance(items, list):
        raise ValueError("the partly consumed items are no lists")  # noqa: TRY004 - as above.
    for index, batch in enumerate(batches):
        if not isinstance(batch, list):
            raise ValueError("a batch is no list of items")  # noqa: TRY004 - as above.
        for part in batch if _form_of(batch) is None else batch[1:]:
            if isinstance(part, list):
                _check_run(part, sources, out)
            else:
                _check_name(part, index, out)
    partial: list[tuple[Term, list[int]]] = []
    for each in items:
        if not isinstance(each, dict) or each.keys() != {"item", "done"}:
            raise ValueError("a partly consumed item has no name, or no results")
        _check_name(each["item"], len(batches), out)
        partial.append((each["item"], each["done"]))
    return Restored(batches, partial, sources)


def _check_run(run: list[Any], sources: int, out: Collection[int]) -> None:
    if len(run) != 2 or not all(type(number) is int for number in run) or not 1 <= run[1] <= len(out):  # noqa: PLR2004
        raise ValueError("a batch has a run of positions that is none")
    if not all(root in out for root in range(run[0], run[0] + run[1] * sources, sources)):
        raise ValueError("a batch has positions that are not out")


def _check_name(name: object, batches: int, out: Collection[int]) -> None:
    for _ in range(_DEEPEST):
        if type(name) is int:
            if name not in out:
                raise ValueError("a partly consumed item has a position that is not out")
            return
        if not isinstance(name, dict):
            break
        if name.keys() == {"batch"}:
            if type(name["batch"]) is not int or not 0 <= name["batch"] < batches:
                break
            return
        if name.keys() != {"of", "result"} or type(name["result"]) is not int or name["result"] < 0:
            break
        name = name["of"]
    raise ValueError("a partly consumed item has no name that names an item")
