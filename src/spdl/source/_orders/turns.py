"""Whose turn it is in a mix, by tokens or by items, and which item of its dataset comes then."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import pairwise
from math import gcd
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spdl._random_key import random_key
from spdl.source._orders.order import EpochOrder, KeyedPermutation, Recent, ShuffledOrder, random_bits

Take: TypeAlias = "Callable[[int, NDArray[np.int64]], NDArray[np.int64]]"
"""Returns the items of a part at some of its draws."""

# About this many turns are computed at once; fewer at the beginning, so that the first ones come at once.
_SEGMENT = 4096
_DOUBLINGS = 7
# So many lengths say how long documents are on average, which decides how many to look at, not what comes.
_SAMPLE = 4096


# The fingerprint has all lengths up to this number, and a sample of more lengths than that.
_COMPARED = 2**20
_DIGESTED = 2**16


class Anchor(NamedTuple):
    """The beginning of a segment of the line of all tokens."""

    first: int
    """Its first turn."""
    number: int
    drawn: tuple[int, ...]
    """How many turns each part has had before."""
    tokens: tuple[int, ...]
    """How many tokens each part has had before."""


class _Segment(NamedTuple):
    parts: NDArray[np.int64]
    draws: NDArray[np.int64]
    lengths: NDArray[np.int64]
    following: Anchor


class TokenTurns:
    """Turns by tokens: at any moment each part has had its share of them, give or take some documents.

    Each part is a line of its documents, one after the other in the order in which it yields them, each as long as its
    number of tokens divided by the part's weight. A document has its turn at a random point of the middle half of its
    own stretch of the line. The mix follows all lines together, from left to right. When it has come to v, each part
    has had the documents with points before v and no others, so it has had its weight times v tokens, give or take
    three quarters of a document. Fair queueing of packets in networks does the same with the beginnings of the
    stretches (P. Goyal, H. Vin and H. Cheng, Start-time Fair Queueing, 1996). Middles halve the error, and random
    points keep parts with documents of one length from simply taking turns.

    The place of a turn on the lines depends on the lengths of all documents before it. So a place that was not visited
    yet is found by going there from the nearest known place before, and places that were passed are remembered.
    """

    def __init__(self, weights: NDArray[np.float64], lengths: Sequence[NDArray[Any]], take: Take, seed: int) -> None:
        # Sums in Python are the same on every machine.
        self._given: list[float] = weights.tolist()
        total = sum(self._given)
        self._weights = [weight / total for weight in self._given]
        self._lengths = lengths
        self._take = take
        self._keys = [random_key(seed, -18, part) for part in range(len(lengths))]
        means = [max(int(each[:_SAMPLE].astype(np.int64).sum()), 1) / len(each[:_SAMPLE]) for each in lengths]
        # The documents of each part per token of the mix.
        self._rates = [weight / mean for weight, mean in zip(self._weights, means, strict=True)]
        self._step = _SEGMENT / sum(self._rates)
        nothing = (0,) * len(lengths)
        # The known ones in order. Threads add to them.
        self._anchors = [Anchor(0, 0, nothing, nothing)]
        self._adding = Lock()
        self._segments = Recent(self._make_segment)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_adding": None, "_anchors": self._anchors[:1]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._adding = Lock()

    @property
    def name(self) -> str:
        shares = ":".join(map(repr, self._given))
        return f"{shares} by tokens of lengths {digest_lengths(self._lengths)}"

    def take(self, turns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        parts, draws = np.empty_like(turns), np.empty_like(turns)
        left = np.ones(turns.shape, dtype=np.bool_)
        while left.any():
            anchor = self._find(int(turns[left].min()))
            segment = self._segments(anchor)
            here = left & (turns < segment.following.first)
            places = turns[here] - anchor.first
            parts[here], draws[here] = segment.parts[places], segment.draws[places]
            left &= ~here
        return parts, draws

    def drawn(self, turn: int) -> NDArray[np.int64]:
        anchor = self._find(turn)
        parts = self._segments(anchor).parts[: turn - anchor.first]
        return np.array(anchor.drawn, dtype=np.int64) + np.bincount(parts, minlength=len(self._lengths))

    def tokens(self, turn: int) -> list[int]:
        anchor = self._find(turn)
        segment, count = self._segments(anchor), turn - anchor.first
        found = np.array(anchor.tokens, dtype=np.int64)
        np.add.at(found, segment.parts[:count], segment.lengths[:count])
        tokens: list[int] = found.tolist()
        return tokens

    def certain(self, left: NDArray[np.int64]) -> int:  # noqa: ARG002 - as the other kind of turns has it.
        return 0

    def known_before(self, turn: int) -> Anchor:
        """Return the last place before a turn from which the way to it is known."""
        return self._anchors[bisect_right(self._anchors, (turn, np.inf)) - 1]

    def _find(self, turn: int) -> Anchor:
        while True:
            anchor = self.known_before(turn)
            following = self._segments(anchor).following
            if turn < following.first:
                return anchor
            self.know(following)

    def know(self, anchor: Anchor) -> None:
        with self._adding:
            # Another thread may have been here.
            place = bisect_left(self._anchors, anchor)
            if self._anchors[place : place + 1] != [anchor]:
                self._anchors.insert(place, anchor)

    def _make_segment(self, anchor: Anchor) -> _Segment:
        number = anchor.number - _DOUBLINGS
        limit = self._step * (2.0**number if number < 0 else number + 1)
        points, parts, draws, lengths = [], [], [], []
        drawn, tokens = list(anchor.drawn), list(anchor.tokens)
        for part, weight in enumerate(self._weights):
            if not weight:
                continue
            found, sizes = self._points_before(part, drawn[part], tokens[part], limit)
            points.append(found)
            parts.append(np.full(found.size, part, dtype=np.int64))
            draws.append(np.arange(drawn[part], drawn[part] + found.size, dtype=np.int64))
            lengths.append(sizes)
            drawn[part] += found.size
            tokens[part] += int(sizes.sum())
        order = np.argsort(np.concatenate(points), kind="stable")
        following = Anchor(anchor.first + order.size, anchor.number + 1, tuple(drawn), tuple(tokens))
        chosen, drawn_before, tokens_of = (np.concatenate(each)[order] for each in (parts, draws, lengths))
        return _Segment(chosen, drawn_before, tokens_of, following)

    def _points_before(
        self, part: int, draw: int, tokens: int, limit: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        weight = self._weights[part]
        # As many as there are on average, and some more.
        count = int(1.2 * self._rates[part] * max(limit - tokens / weight, 0)) + 16
        while True:
            draws = np.arange(draw, draw + count, dtype=np.int64)
            items = self._take(part, draws)
            sizes = self._lengths[part][items].astype(np.int64)
            if sizes.min() < 0:
                worst = int(items[sizes.argmin()])
                raise ValueError(f"`lengths[{part}][{worst}]` must be at least 0, got {int(sizes.min())}.")
            sums = tokens + np.cumsum(sizes)
            inside = (random_bits(self._keys[part], draws) >> np.uint64(11)).astype(np.float64) * 2.0**-54 + 0.25
            points = (sums - sizes + inside * sizes) / weight
            if points[-1] >= limit:
                before = int(np.searchsorted(points, limit))
                return points[:before], sizes[:before]
            if sums[-1] == tokens and count > 2 * len(self._lengths[part]):
                raise ValueError(f"`lengths[{part}]` must not all be 0: its share of the tokens cannot be kept.")
            count *= 2


def digest_lengths(lengths: Sequence[NDArray[Any]]) -> str:
    """Return a short text of the lengths of documents of some corpora: of all, or of a sample of very many."""
    digest = blake2b(digest_size=6)
    for each in lengths:
        # Billions of lengths would take minutes to read.
        some = each if each.size <= _COMPARED else each[:: each.size // _DIGESTED]
        digest.update(f"{each.size}:".encode() + some.astype("<i8").tobytes())
    return digest.hexdigest()


# How finely weights are distinguished, and how many draws hold them exactly.
_MOST_SLOTS = 65_536
_FEWEST_SLOTS = 1024


class ItemTurns:
    """Turns by items: rounds in which the proportions of draws are exact."""

    def __init__(self, weights: NDArray[np.float64], seed: int) -> None:
        self._seed = seed
        self._slots = _to_slots(weights)
        self._bounds = np.cumsum(self._slots)
        self.round = int(self._bounds[-1])
        self._rounds = Recent(self._make_round)

    @property
    def name(self) -> str:
        return ":".join(map(str, (self._slots // gcd(*self._slots.tolist())).tolist()))

    def take(self, turns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each turn the part that has it, and how many turns that part has had before."""
        rounds, places = np.divmod(turns, self.round)
        chosen, draws = np.empty_like(places), np.empty_like(places)
        for number in np.unique(rounds).tolist():
            here = rounds == number
            parts, before = self._rounds(number)
            chosen[here] = parts[places[here]]
            draws[here] = before[places[here]]
        draws += rounds * self._slots[chosen]
        return chosen, draws

    def drawn(self, turn: int) -> NDArray[np.int64]:
        """Return how many turns each part has had before one."""
        number, place = divmod(turn, self.round)
        parts, _ = self._rounds(number)
        return number * self._slots + np.bincount(parts[:place], minlength=self._slots.size)

    def certain(self, left: NDArray[np.int64]) -> int:
        """Return a number of turns in which no part draws more than it has left."""
        return int((left[self._slots > 0] // self._slots[self._slots > 0]).min()) * self.round

    def _make_round(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each draw of a round whose turn it is, and how many turns in the round it has had before."""
        order = KeyedPermutation(self.round, seed=random_key(self._seed, -11, 0), epoch=number)[:]
        parts = np.searchsorted(self._bounds, order, side="right").astype(np.int64, copy=False)
        before = np.empty_like(parts)
        # Sorted by part, the draws of each part follow each other.
        before[np.argsort(parts, kind="stable")] = np.arange(self.round) - np.repeat(
            self._bounds - self._slots, self._slots
        )
        return parts, before


def _to_slots(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    if (weights == np.floor(weights)).all() and weights.sum() < 2**53:
        exact = weights.astype(np.int64)
        exact //= gcd(*exact.tolist())
        if (total := int(exact.sum())) <= _MOST_SLOTS:
            # More draws than that, so that datasets do not simply take turns.
            return exact * -(-_FEWEST_SLOTS // total)
    shares = weights / weights.max()
    shares = shares / shares.sum() * _MOST_SLOTS
    slots: NDArray[np.int64] = np.maximum(np.floor(shares).astype(np.int64), (weights > 0).astype(np.int64))
    missing = _MOST_SLOTS - int(slots.sum())
    if missing > 0:
        slots[np.argsort(slots - shares, kind="stable")[:missing]] += 1
    return slots


class Phase(NamedTuple):
    """A part of a run in which a corpus had the same size."""

    size: int
    drawn: int
    """How many items were drawn in it; in the last phase, before the present stage."""


class Corpus:
    """Which item comes at which draw of a stage.

    A corpus yields each of its items once, a pass, before it yields one again. If it has grown, the items that were
    left of the pass under way and the new ones come first, shuffled together. Then come passes over all items.

    There is more than one phase only with `seed`, which is None if the user made the order.
    """

    def __init__(self, order: EpochOrder, phases: tuple[Phase, ...], seed: int | None) -> None:
        self.order = order
        self.phases = phases
        self._seed = seed
        # For each phase: its order; how many items were left of the former's last pass and are new; the number of its
        # first whole pass.
        self._orders = [order]
        if seed is not None:
            self._orders = [*(ShuffledOrder(phase.size, seed=seed) for phase in phases[:-1]), order]
        self._heads, self._passes = [0], [0]
        for number, (before, phase) in enumerate(pairwise(phases)):
            whole = max(before.drawn - self._heads[number], 0)
            self._heads.append(self._left(number) + phase.size - before.size)
            self._passes.append(self._passes[number] - (-whole // before.size))

    @property
    def left(self) -> int:
        """How many items the stage can draw before one comes again."""
        return self._left(len(self.phases) - 1)

    def take(self, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        last = len(self.phases) - 1
        return self._take(last, draws + self.phases[last].drawn)

    def _take(self, number: int, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        head = self._heads[number]
        found = np.empty_like(draws)
        passes, positions = np.divmod(draws - head, len(self._orders[number]))
        for each in np.unique(passes[draws >= head]).tolist():
            here = (passes == each) & (draws >= head)
            found[here] = self._orders[number].take(self._passes[number] + each, positions[here])
        if (first := draws < head).any():
            shuffled = KeyedPermutation(head, seed=random_key(self._seed or 0, -13, number))
            found[first] = self._take_left(number - 1, shuffled.take(draws[first]))
        return found

    def _take_left(self, number: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return some of the items that a phase has left of its last pass, or that have come since."""
        size, drawn = self.phases[number]
        left = self._left(number)
        found = places - left + size
        if (old := places < left).any():
            found[old] = self._take(number, drawn + places[old])
        return found

    def _left(self, number: int) -> int:
        drawn, head = self.phases[number].drawn, self._heads[number]
        size = len(self._orders[number])
        if drawn < head:
            return head - drawn
        # At the very end of a pass nothing is left of it.
        return 0 if drawn and (drawn - head) % size == 0 else size - (drawn - head) % size
