"""An order that mixes several sources."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdl._check import check_choice, check_flag, check_int, check_iterable, positive, refuse, refuse_masked, refuse_set
from spdl._random_key import random_key
from spdl.io import PackedRows
from spdl.source._orders.order import LARGEST, EpochOrder, ShuffledOrder, check_positions, digest, refuse_batches
from spdl.source._orders.packed import PackedOrder, documents_of, put_together
from spdl.source._orders.turns import Corpus, ItemTurns, Phase, TokenTurns
from spdl.source._orders.weighted import to_weights

Unit: TypeAlias = Literal["items", "tokens"]

# States shall stay short.
_LONG = 300


class MixedOrder:
    """Several datasets mixed in given proportions, each with its own epochs.

    A small dataset with a high weight is gone through several times while a large one is gone through once. Nothing is
    drawn independently. Which dataset yields what is a function of the position alone, so the mix can be shared among
    ranks, cut and resumed like any other order.

    **By items.** In every round of 1,024 to 65,536 draws the proportions of items are exact, and each dataset yields
    each of its items once before it yields one again, also across the epochs of the mix. A round is short where the
    weights are small ints, such as 3 and 1, and has 65,536 draws if they are fractions, such as 0.7 and 0.3.

    **By tokens.** If items are documents of very different lengths, their number says little: of two corpora mixed half
    and half by items, one with documents a quarter as long has a fifth of the tokens. With ``unit="tokens"`` the
    weights are shares of the tokens, at every moment: a corpus of weight w, the weights adding up to 1, is never
    further from its share than the length of its longest document and w times the sum of the longest documents of all
    corpora. Its documents still come once each before one comes again. Each corpus is a line of its documents, scaled
    by its weight; a document has its turn at a random point in the middle of its stretch, and the mix follows all lines
    together, as fair queueing does with the packets of networks. The place in the lines depends on the documents
    before, so entering the mix far from any place it was at takes about half a second for a million documents; states
    of samplers have a place nearby, so resuming takes milliseconds.

    **Stages.** Give the mixes of a run whose weights change, or whose corpora grow, the numbers 0, 1, 2, and so on as
    `stage`. `EpochSampler.load_state_dict` of a later stage then takes the state of an earlier one, and so do
    loaders. It begins at the start of its mix, and each corpus continues after the documents that were drawn: what
    is left of its pass comes first, and new documents with it. The later mix must have the same `seed` and begin
    with the same corpora; a corpus may have a weight of 0, and others may follow. A corpus given as a number may
    have become larger, if its new items follow the old ones; one given as an order must be the same. A stage can
    end after any step of all ranks.

    The indices are as in the datasets put one after the other, as in ``torch.utils.data.ConcatDataset``. `locate`
    returns the dataset and the item of an index.

    Args:
        parts: For each dataset its number of items, which are then shuffled, or a separate `EpochOrder`.
        sizes: How many items each dataset has. None takes the order's ``num_items``, if it has one, or the
            length of its epoch. Give it if a custom order leaves items out or repeats some, since the indices
            of the next dataset follow.
        weights: How often each dataset's turn comes, or which share of the tokens it has, in any unit: numbers of at
            least 0. None takes the length of each one's epoch, which is its number of items unless a custom order
            leaves some out or repeats some; by tokens, the number of tokens of all its items. By items, weights that
            are not small ints are rounded to multiples of 1/65,536 of their sum, and none above 0 to 0.
        num_samples: The number of items of an epoch of the mix. None is the sum of the lengths of the epochs of all
            datasets whose weight is above 0.
        seed: The run. Any int.
        unit: ``"items"`` or ``"tokens"``.
        lengths: For each dataset the number of tokens of each of its items, ints of at least 0, such as
            `TokenFiles.lengths`. Arrays are not copied, so they may be mapped files. Needed by tokens; by items they
            only let `drawn` count tokens.
        repeat: Whether a dataset that was gone through begins again. If not, the mix has one epoch, which ends before
            the first item that would come again, and `num_samples` must not be more. By tokens, this makes the order
            go through the whole mix once when it is made.
        stage: The number of the stage.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `parts` is empty, if one is empty, if `sizes`, `lengths` or `weights` are not one for each, if a
            weight is negative or all are 0, or if there are fewer items than `num_samples` and none may come again.
            Later, of `take`: if documents that it comes to have negative lengths, or all of a part have none.

    Example:
        >>> from spdl.source import EpochSampler, MixedOrder
        >>> order = MixedOrder([1000, 10], weights=[3, 1], num_samples=400, seed=1)
        >>> indices = list(EpochSampler(order, rank=0, world_size=1))
        >>> [order.locate(index) for index in (5, 1005)]
        [(0, 5), (1, 5)]
        >>> sum(index >= 1000 for index in indices) in range(80, 120)
        True

        Half of the tokens each, of documents of 10 and of 90 tokens:

        >>> lengths = [[10] * 9000, [90] * 1000]
        >>> order = MixedOrder([9000, 1000], weights=[1, 1], unit="tokens", lengths=lengths)
        >>> order.drawn(0, 5000)
        ([4500, 500], [45000, 45000])
    """

    def __init__(
        self,
        parts: Sequence[int | EpochOrder],
        /,
        *,
        sizes: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
        num_samples: int | None = None,
        seed: int = 0,
        unit: Unit = "items",
        lengths: Sequence[ArrayLike] | None = None,
        repeat: bool = True,
        stage: int = 0,
    ) -> None:
        self.seed = check_int("seed", seed, least=None)
        check_iterable("parts", parts, "the orders of several datasets, or their numbers of items, in a list")
        refuse_set("parts", parts)
        given = list(parts)
        self.parts = tuple(_to_order(part, number, self.seed) for number, part in enumerate(given))
        if not self.parts:
            refuse(ValueError, "parts", "at least one dataset", parts)
        check_choice("unit", unit, get_args(Unit))
        self.unit: Unit = unit
        self.repeat = check_flag("repeat", repeat)
        self.stage = check_int("stage", stage, least=0)
        self._sizes = _check_sizes(sizes, self.parts)
        self._starts = [0, *accumulate(self._sizes)]
        if self._starts[-1] > LARGEST:
            refuse(ValueError, "parts", f"at most {LARGEST} items in all", parts)
        self._lengths = None if lengths is None else _check_lengths(lengths, self._sizes)
        if self._lengths is None and unit == "tokens":
            refuse(TypeError, "lengths", 'the lengths of the documents of each part with unit="tokens"', lengths)
        self.weights = self._check_weights(weights)
        # The user's own orders are the same in all stages.
        seeds = [
            None if isinstance(part, EpochOrder) else random_key(self.seed, -12, n) for n, part in enumerate(given)
        ]
        self._seeds: tuple[int | None, ...] = tuple(seeds)
        self._num_samples = None if num_samples is None else positive("num_samples", num_samples)
        if self._num_samples is not None and self._num_samples > LARGEST:
            refuse(ValueError, "num_samples", f"at most {LARGEST}", num_samples)
        phases = [(Phase(size, 0),) for size in self._sizes]
        self._begin(phases, [0] * len(phases), None)

    def _begin(self, phases: Sequence[tuple[Phase, ...]], tokens: list[int] | None, size: int | None) -> None:
        """Let the stage begin after what was drawn of each part. `tokens` and `size` are None if they are not known."""
        self._corpora = [
            Corpus(part, each, seed) for part, each, seed in zip(self.parts, phases, self._seeds, strict=True)
        ]
        self._tokens = tokens
        if self.unit == "items":
            self._turns: ItemTurns | TokenTurns = ItemTurns(self.weights, self.seed)
        else:
            assert self._lengths is not None
            self._turns = TokenTurns(self.weights, self._lengths, self._take_part, self.seed)
        self._size = self._find_size() if size is None else size
        self._fingerprint: str | None = None

    def _find_size(self) -> int:
        if self.repeat:
            likely = sum(len(part) for part, weight in zip(self.parts, self.weights.tolist(), strict=True) if weight)
            return self._num_samples or likely
        left = np.array([corpus.left for corpus in self._corpora], dtype=np.int64)
        size = self._turns.certain(left)
        count = 32
        while True:
            turns = np.arange(size, size + count, dtype=np.int64)
            count = min(2 * count, 8192)
            parts, draws = self._turns.take(turns)
            beyond = np.flatnonzero(draws >= left[parts])
            if beyond.size:
                size += int(beyond[0])
                break
            size += turns.size
            if self._num_samples is not None and size >= self._num_samples:
                break
        if not size or (self._num_samples is not None and size < self._num_samples):
            part = int(parts[beyond[0]])
            remedy = f"Then part {part} has no item left that has not come; repeat=True lets it begin again."
            if not size:
                weight = float(self.weights[part])
                refuse(ValueError, f"weights[{part}]", "0, as nothing of this part is left", weight, remedy)
            refuse(ValueError, "num_samples", f"at most {size} with repeat=False", self._num_samples, remedy)
        return self._num_samples or size

    def _check_weights(self, weights: Sequence[float] | None) -> NDArray[np.float64]:
        if weights is None:
            lengths = self._lengths if self.unit == "tokens" else None
            weights = (
                [*map(len, self.parts)] if lengths is None else [int(each.sum(dtype=np.int64)) for each in lengths]
            )
        return to_weights(weights, len(self.parts), "part")

    @property
    def fingerprint(self) -> str:
        """A text that names the order."""
        # Samplers ask for it with every state, and lengths are many.
        if self._fingerprint is None:
            self._fingerprint = self._make_fingerprint()
        return self._fingerprint

    def _make_fingerprint(self) -> str:
        parts = ", ".join(
            # The number of items is a part of what tells most orders apart.
            part.fingerprint if size == len(part) else f"{part.fingerprint} of {size} items"
            for part, size in zip(self.parts, self._sizes, strict=True)
        )
        if len(parts) > _LONG:
            parts = f"{len(self.parts)} parts {digest(parts)}"
        shares = self._turns.name
        if len(shares) > _LONG:
            shares = digest(shares)
        more = "" if self.repeat else ", each once"
        if self.stage:
            # The number of items that were drawn before it, and which.
            before = [corpus.phases for corpus in self._corpora]
            more += f", stage {self.stage} after {digest(repr(before))}"
        return f"mixed(n={self._size}, {shares} of {parts}, seed={self.seed}{more})"

    def __len__(self) -> int:
        return self._size

    @property
    def num_items(self) -> int:
        """How many items all datasets have together."""
        return self._starts[-1]

    def locate(self, index: int) -> tuple[int, int]:
        """Return the number of the dataset that an index belongs to, and the index in it.

        Args:
            index: An index that the order yielded.

        Raises:
            TypeError: If it is not an int.
            IndexError: If no dataset has it.
        """
        index = check_int("index", index, least=None)
        if not 0 <= index < self._starts[-1]:
            raise IndexError(f"index {index} is out of range for {self._starts[-1]} items of all parts")
        part = bisect_right(self._starts, index) - 1
        return part, index - self._starts[part]

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the indices of the items at some positions of an epoch.

        Args:
            epoch: The pass over the mix, from 0.
            positions: An array of numbers from 0 to ``len(self) - 1``.

        Raises:
            IndexError: If they are others, or if a part yields an index that its dataset does not have.
        """
        check_positions(positions, self._size)
        if epoch and not self.repeat:
            raise ValueError(
                f"Epoch {epoch} of a MixedOrder with repeat=False: all items that may come have come in epoch 0. Begin "
                "another stage, or pass repeat=True."
            )
        chosen, draws = self._turns.take(epoch * self._size + positions)
        found = np.empty_like(chosen)
        for part in np.unique(chosen).tolist():
            here = chosen == part
            indices = self._take_part(part, draws[here])
            found[here] = self._starts[part] + indices
        return found

    def _take_part(self, part: int, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        indices = self._corpora[part].take(draws)
        if indices.size and (indices.min() < 0 or indices.max() >= self._sizes[part]):
            wrong = int(indices[(indices < 0) | (indices >= self._sizes[part])][0])
            raise IndexError(
                f"parts[{part}] ({self.parts[part].fingerprint}) yielded the index {wrong}, and its dataset is "
                f"taken to have {self._sizes[part]} items. Give `sizes`: the number of items of each dataset."
            )
        return indices

    def rows(self, numbers: Sequence[int] | NDArray[np.int64], /) -> PackedRows:
        """Return what is in some rows, if all parts are `PackedOrder`. Threads may call it at once.

        Args:
            numbers: Numbers that `take`, or a sampler of this order, returned.

        Returns:
            The rows. Their documents are numbered as in the data of the parts put one after the other, such as
            ``TokenFiles([*first, *second])``.

        Raises:
            TypeError: If a part is another order.
            IndexError: If a number is no such number.
            RuntimeError: If the lengths of a part are not those that it was made for.

        Example:
            >>> from spdl.source import MixedOrder, PackedOrder
            >>> mix = MixedOrder([PackedOrder([3, 2], 5), PackedOrder([4, 4], 5)], weights=[1, 1])
            >>> mix.rows([0, mix.num_items - 1]).documents.max() >= 2
            np.True_
        """
        orders = packed_parts(self)
        if not orders:
            raise TypeError(f"{self!r} has no rows of documents: each of `parts` must be a PackedOrder.")
        numbers = np.asarray(numbers, np.int64).reshape(-1)
        check_positions(numbers, self._starts[-1])
        parts = np.searchsorted(self._starts, numbers, side="right") - 1
        found = []
        begin = 0
        for part, order in enumerate(orders):
            here = np.flatnonzero(parts == part)
            # The first one also if there are no numbers.
            if here.size or not part:
                rows = order.rows(numbers[here] - self._starts[part])
                found.append((here, rows._replace(documents=rows.documents + begin)))
            begin += documents_of(order)
        return put_together(numbers.size, found)

    def drawn(self, epoch: int, position: int) -> tuple[list[int], list[int] | None]:
        """Return how much of each part was drawn before a position, former stages included.

        All ranks together have taken ``step * world_size * batch_size`` positions before a step.

        Args:
            epoch: The pass over the mix, from 0.
            position: A number from 0 to ``len(self)``.

        Returns:
            For each part the number of items, and the number of tokens, which is None without `lengths`, or if a
            former stage had none.

        Raises:
            TypeError, ValueError: If an argument is not such an int.

        Example:
            >>> from spdl.source import MixedOrder
            >>> MixedOrder([100, 100], weights=[3, 1], num_samples=1024).drawn(0, 1024)
            ([768, 256], None)
        """
        epoch = check_int("epoch", epoch, least=0)
        turn = epoch * self._size + check_int("position", position, least=0, most=self._size)
        drawn = self._turns.drawn(turn).tolist()
        items = [
            sum(phase.drawn for phase in corpus.phases) + more
            for corpus, more in zip(self._corpora, drawn, strict=True)
        ]
        if self._lengths is None or self._tokens is None:
            return items, None
        if isinstance(self._turns, TokenTurns):
            tokens = self._turns.tokens(turn)
        else:
            tokens = [self._count_tokens(part, more) for part, more in enumerate(drawn)]
        return items, [before + more for before, more in zip(self._tokens, tokens, strict=True)]

    def _count_tokens(self, part: int, drawn: int) -> int:
        assert self._lengths is not None
        found = 0
        for start in range(0, drawn, 2**16):
            items = self._take_part(part, np.arange(start, min(start + 2**16, drawn), dtype=np.int64))
            found += int(self._lengths[part][items].sum(dtype=np.int64))
        return found

    def __repr__(self) -> str:
        return f"MixedOrder of {len(self.parts)} parts: {self.fingerprint}"


def packed_parts(order: EpochOrder) -> list[PackedOrder]:
    """Return the orders whose rows an order yields; nothing if it yields others than rows."""
    parts = order.parts if isinstance(order, MixedOrder) else (order,)
    packed = [part for part in parts if isinstance(part, PackedOrder)]
    return packed if len(packed) == len(parts) else []


def _to_order(part: int | EpochOrder, number: int, seed: int) -> EpochOrder:
    if isinstance(part, EpochOrder):
        if not len(part):
            refuse(ValueError, f"parts[{number}]", "an order of at least one item", part)
        refuse_batches(f"parts[{number}]", part)
        return part
    size = check_int(f"parts[{number}]", part, least=1, accepted="a number of items of at least 1, or an EpochOrder")
    return ShuffledOrder(size, seed=random_key(seed, -12, number))


def _check_sizes(sizes: Sequence[int] | None, parts: Sequence[EpochOrder]) -> list[int]:
    if sizes is None:
        return [getattr(part, "num_items", len(part)) for part in parts]
    check_iterable("sizes", sizes, f"{len(parts)} numbers, one for each part, or None")
    given = list(sizes)
    if len(given) != len(parts):
        refuse(ValueError, "sizes", f"{len(parts)} numbers, one for each part", sizes)
    return [check_int(f"sizes[{number}]", size, least=1) for number, size in enumerate(given)]


def _check_lengths(lengths: Sequence[ArrayLike], sizes: Sequence[int]) -> list[NDArray[Any]]:
    check_iterable("lengths", lengths, f"{len(sizes)} arrays, one for each part, or None")
    for number, each in enumerate(lengths):
        refuse_masked(f"lengths[{number}]", each)
    found = [np.asarray(each) for each in lengths]
    if len(found) != len(sizes):
        refuse(ValueError, "lengths", f"{len(sizes)} arrays, one for each part", lengths)
    for number, (each, size) in enumerate(zip(found, sizes, strict=True)):
        if each.shape != (size,):
            refuse(ValueError, f"lengths[{number}]", f"an array of the shape ({size},), one for each item", each.shape)
        if each.dtype.kind not in "iu":
            refuse(TypeError, f"lengths[{number}]", "an array of ints", each)
    return found
