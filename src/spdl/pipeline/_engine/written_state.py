"""What a state says besides positions: items consumed in part, and what aggregators have left over."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .chains import Again, Segment, Tail
from .groups import Gathering, Group, Result
from .runs import runs_to_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .chains import Chain
    from .groups import Form, Root
    from .lineage import Lineage, Unconsumed
    from .records import Restored, Term

__all__ = ["chains_from_state", "state_of"]


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
        if index is None and isinstance(root, Segment) and root.place is not None:
            assert self._restored is not None
            index = self._indices[root] = self.copy_batch(self._restored.terms(), root.place)
        if index is None:
            names = [self.name(parent) for parent in root.origins()]
            nameless = not names and not isinstance(root, Segment)
            if None in names or nameless or (root.packed() is not None and not _ascends(names)):
                # What was packed has lost its order.
                return None
            if root.form == "nest":
                raise RuntimeError(
                    "The state cannot be exact at this moment: only a part was received of a result of an aggregator "
                    "with `held_back()` that is no list of its items. Take it a result later, or have the aggregator "
                    "return lists, or give it `state_dict()` and `load_state_dict()`."
                )
            index = self._add(root, names, root.form)
        return {"batch": index}

    def referred(self) -> list[Segment]:
        """Return the results of aggregators with leftovers that names refer to."""
        return [key for key in self._indices if isinstance(key, Segment)]

    def copy(self, batches: list[list[Term]], item: Term) -> Term:
        """Return the name of an item that other batches were referred to by."""
        if isinstance(item, int):
            return item
        if "of" in item:
            return {**item, "of": self.copy(batches, item["of"])}
        return {"batch": self.copy_batch(batches, item["batch"])}

    def copy_batch(self, batches: list[list[Term]], place: int) -> int:
        """Return the place of a batch that was at a place among other batches."""
        key = (id(batches), place)
        index = self._indices.get(key)
        if index is None:
            assert self._restored is not None
            form = self._restored.batch(place).form
            index = self._add(key, [self.copy(batches, member) for member in batches[place]], form)
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


def _ascends(names: list[Any]) -> bool:
    return all(isinstance(name, int) for name in names) and all(a < b for a, b in pairwise(names))


def state_of(unconsumed: Unconsumed, lineage: Lineage) -> dict[str, Any]:
    """Return the items whose results were consumed in part, and what aggregators have left over, as a state holds them.

    Called with the engine's lock held.

    Raises:
        RuntimeError: If the items of a result that has to be made again cannot be named.
    """
    restored = lineage.restored
    if not unconsumed.results and restored is None and not lineage.chains:
        return {}
    writer = _Writer(lineage)
    items: list[dict[str, Any]] = []
    for results, done in unconsumed.results:
        name = writer.name(results.parents[0])
        if name is not None:
            items.append({"item": name, "done": runs_to_state(done)})
    if restored is not None:
        for batches, item, done in restored.pending(frozenset(unconsumed.roots)):
            items.append({"item": writer.copy(batches, item), "done": runs_to_state(done)})
    # Those of later stages refer to those of earlier ones.
    chains = [_chain_state(writer, chain, unconsumed, restored) for chain in reversed(lineage.chains)][::-1]
    state: dict[str, Any] = {}
    if items or writer.batches:
        state["partial"] = {"items": items, "batches": writer.batches} if writer.batches else {"items": items}
    if chains:
        state["aggregators"] = chains
    return state


def _chain_state(writer: _Writer, chain: Chain, unconsumed: Unconsumed, restored: Restored | None) -> dict[str, Any]:
    cut = chain.cut(unconsumed.segments, writer.referred())
    again: list[list[Any]] = []
    for segment in cut.again:
        name = writer.name(segment)
        if not isinstance(name, dict):
            raise RuntimeError(  # noqa: TRY004 - the caller has given nothing.
                "The state cannot be exact at this moment: an aggregator has made a result of items of a region or a "
                "merge that gathers, a later result was received and this one was not, and it is not known which items "
                "these were. Put the aggregator before that stage, or have the later stages keep the order."
            )
        again.append([name["batch"], *segment.tail])
    for each in chain.again:
        assert restored is not None
        again.append([writer.copy_batch(restored.terms(), each.place), *each.tail])
    state: dict[str, Any] = cut.tail._asdict()
    if again:
        state["again"] = again
    return state


def chains_from_state(states: object, number: int, restored: Restored | None) -> list[tuple[Tail, list[Again]]]:
    """Return what aggregators had left over, and what they have to make again, as `state_of` has written it.

    Args:
        states: What it has written.
        number: How many there must be.
        restored: What the state says of the items of what is made again.

    Raises:
        ValueError: If it is of other aggregators, or damaged.
    """
    if not isinstance(states, list) or len(states) != number:
        raise ValueError(
            f"it holds what {len(states) if isinstance(states, list) else 'no'} aggregators have left over, and this "
            f"pipeline has {number} with `state_dict` and `load_state_dict`"
        )
    chains: list[tuple[Tail, list[Again]]] = []
    for state in states:
        again = state.get("again", []) if isinstance(state, dict) else None
        if not isinstance(again, list) or "left" not in state or type(state.get("epoch")) is not int:
            raise ValueError("what an aggregator has left over is no dict of what it must have")
        chains.append((Tail(state["left"], state["epoch"]), [_again(each, restored) for each in again]))
    return chains


def _again(entry: object, restored: Restored | None) -> Again:
    if restored is None or not isinstance(entry, list) or len(entry) != 3:  # noqa: PLR2004 - as `_chain_state` writes it.
        raise ValueError("a result of an aggregator has no batch")
    index, left, epoch = entry
    if type(index) is not int or not 0 <= index < len(restored.terms()) or type(epoch) is not int:
        raise ValueError("a result of an aggregator has no batch")
    return Again(index, restored.batch(index), Tail(left, epoch))
