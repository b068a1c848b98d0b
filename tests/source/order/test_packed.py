"""Rows packed with documents by their lengths."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import EpochSampler, MixedOrder, PackedOrder

if TYPE_CHECKING:
    from pathlib import Path

    from spdl.io import PackedRows

ALGORITHMS = ["best-fit", "first-fit", "concat"]
RULES = [(algorithm, split) for algorithm in ALGORITHMS for split in ("never", "long")] + [
    ("concat", "always"),
    ("none", "never"),
    ("none", "long"),
]


@st.composite
def draw_arguments(draw: st.DrawFn) -> tuple[list[int], int, dict[str, Any]]:
    align = draw(st.integers(1, 4))
    length = align * draw(st.integers(1, 40))
    lengths = draw(st.lists(st.integers(0, 2 * length + 1), min_size=1, max_size=40))
    algorithm, split = draw(st.sampled_from(RULES))
    if split == "never":
        lengths.append(draw(st.integers(1, length)))
    options = {"algorithm": algorithm, "split": split, "align": align, "too_long": "drop"}
    return [*lengths, 1], length, options


def all_rows(order: PackedOrder, epoch: int = 0) -> list[list[tuple[int, int, int]]]:
    return to_lists(order.rows(order.take(epoch, np.arange(len(order)))))


def to_lists(rows: PackedRows) -> list[list[tuple[int, int, int]]]:
    segments = list(zip(rows.documents.tolist(), rows.starts.tolist(), rows.stops.tolist(), strict=True))
    return [segments[begin:end] for begin, end in pairwise(rows.offsets.tolist())]


def place(row: list[tuple[int, int, int]], align: int) -> int:
    """Return where a row ends if each segment begins at a multiple of the alignment."""
    end = 0
    for _, start, stop in row:
        end = -(-end // align) * align + stop - start
    return end


@given(draw_arguments(), st.integers(), st.integers(0, 3), st.integers(1, 50))
def test_packed_order_has_every_token_once_and_fits_each_row(
    arguments: tuple[list[int], int, dict[str, Any]], seed: int, epoch: int, window: int
) -> None:
    lengths, length, options = arguments
    order = PackedOrder(lengths, length, **options, seed=seed, shuffle=seed % 2 == 0, window=window)
    rows = all_rows(order, epoch)
    tokens: list[list[int]] = [[] for _ in lengths]
    for row in rows:
        assert row
        assert place(row, options["align"]) <= length
        for document, start, stop in row:
            assert start < stop
            tokens[document] += range(start, stop)
    for document, size in enumerate(lengths):
        dropped = options["split"] == "never" and size > length
        assert sorted(tokens[document]) == ([] if dropped else list(range(size)))
        if options["split"] == "never":
            assert sum(document == each for row in rows for each, _, _ in row) <= 1
    counts = order.counts
    long = [size for size in lengths if size > length and options["split"] == "never"]
    assert (counts.documents, counts.tokens, counts.rows) == (len(lengths), sum(lengths), len(rows))
    assert (counts.too_long_documents, counts.too_long_tokens) == (len(long), sum(long))
    assert counts.packed_tokens + counts.too_long_tokens == counts.tokens
    assert counts.empty_documents == lengths.count(0)
    of_documents = [[document for row in rows for document, _, _ in row].count(each) for each in range(len(lengths))]
    assert counts.split_documents == sum(count > 1 for count in of_documents)
    assert counts.fill == counts.packed_tokens / (len(rows) * length)


def cut_long(lengths: list[int], length: int, split: str) -> list[tuple[int, int, int]]:
    pieces = []
    for document, size in enumerate(lengths):
        if split == "long" or size <= length:
            pieces += [(document, start, min(start + length, size)) for start in range(0, size, length)]
    return pieces


@given(draw_arguments())
def test_packed_order_packs_as_the_naive_algorithms_do(arguments: tuple[list[int], int, dict[str, Any]]) -> None:
    lengths, length, options = arguments
    algorithm, split, align = options["algorithm"], options["split"], options["align"]
    found = all_rows(PackedOrder(lengths, length, **options, shuffle=False))
    if algorithm == "concat":
        assert found == concat(lengths, length, split, align)
        return
    pieces = cut_long(lengths, length, split)
    if algorithm == "none":
        assert found == [[piece] for piece in pieces]
        return
    if algorithm == "best-fit":
        pieces.sort(key=lambda piece: (piece[1] - piece[2]) // align)
    rows: list[list[tuple[int, int, int]]] = []
    space: list[int] = []
    for piece in pieces:
        size = -(-(piece[2] - piece[1]) // align) * align
        fitting = [row for row in range(len(rows)) if space[row] >= size]
        if not fitting:
            rows.append([])
            space.append(length)
            fitting = [len(rows) - 1]
        chosen = min(fitting, key=lambda row: space[row]) if algorithm == "best-fit" else fitting[0]
        rows[chosen].append(piece)
        space[chosen] -= size
    if algorithm == "first-fit":
        assert found == sorted(rows, key=lambda row: row[0])
    else:
        # Which of two rows with the same space gets a document is a matter of taste.
        used = [sum(-(-(stop - start) // align) for _, start, stop in row) * align for row in found]
        assert sorted(used) == sorted(length - each for each in space)


def concat(lengths: list[int], length: int, split: str, align: int) -> list[list[tuple[int, int, int]]]:
    rows: list[list[tuple[int, int, int]]] = []
    for document, size in enumerate(lengths):
        if split == "never" and size > length:
            continue
        start = 0
        while start < size:
            begin = -(-place(rows[-1], align) // align) * align if rows else length
            cuts = split == "always" or (split == "long" and begin == 0)
            if begin == length or (begin + size - start > length and not cuts):
                rows.append([])
                continue
            stop = min(size, start + length - begin)
            rows[-1].append((document, start, stop))
            start = stop
    return rows


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_packed_order_takes_rows_of_every_length(algorithm: Any) -> None:
    random = np.random.default_rng(0)
    for length in range(1, 8194):
        lengths = random.integers(0, 2 * length + 1, 9)
        lengths[0] = length
        order = PackedOrder(lengths, length, algorithm=algorithm, shuffle=False)
        rows = order.rows(np.arange(len(order)))
        sizes = np.add.reduceat(rows.stops - rows.starts, rows.offsets[:-1])
        assert sizes.max() <= length
        assert order.counts.packed_tokens == lengths.sum() == sizes.sum()


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "none"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_packed_order_resumes_at_every_cut(algorithm: Any, world_size: int) -> None:
    lengths = [(37 * number) % 41 for number in range(60)]

    def make(rank: int, ranks: int, batch_size: int) -> EpochSampler:
        order = PackedOrder(lengths, 64, algorithm=algorithm, seed=5, window=25)
        return EpochSampler(order, batch_size=batch_size, rank=rank, world_size=ranks)

    order = PackedOrder(lengths, 64, algorithm=algorithm, seed=5, window=25)
    expected = [(document, token) for document, size in enumerate(lengths) for token in range(size)]
    # In the last step, a rank may repeat a row of another.
    for cut in range(len(make(0, world_size, 2).batch_sampler)):
        samplers = [make(rank, world_size, 2) for rank in range(world_size)]
        iterators = [iter(sampler.batch_sampler) for sampler in samplers]
        taken = [row for _ in range(cut) for iterator in iterators for row in next(iterator)]
        state = samplers[0].state_dict()
        same = make(0, world_size, 2)
        same.load_state_dict(state)
        assert list(same.batch_sampler) == list(iterators[0])
        other = make(0, 1, 3)
        other.load_state_dict(state)
        found = to_lists(order.rows([*taken, *other]))
        tokens = sorted((each, token) for row in found for each, start, stop in row for token in range(start, stop))
        assert tokens == expected


def test_packed_order_lets_documents_of_equal_length_meet_others_in_each_epoch() -> None:
    order = PackedOrder([10, 20] * 100, 30, seed=3)
    together = [
        {tuple(sorted(document for document, _, _ in row)) for row in all_rows(order, epoch)} for epoch in (0, 1)
    ]
    assert len(together[0]) == len(together[1]) == 100
    assert len(together[0] & together[1]) < 20


def test_packed_order_without_shuffle_is_in_the_order_of_the_documents() -> None:
    order = PackedOrder([6, 5, 3, 4, 7, 1, 2], 10, shuffle=False)
    for epoch in range(2):
        rows = all_rows(order, epoch)
        assert [row[0][0] for row in rows] == sorted(row[0][0] for row in rows)
    assert all_rows(order, 0) == all_rows(order, 1)


def test_packed_order_shuffles_lengths_and_rows() -> None:
    lengths = np.arange(1, 20_001) % 200 + 1
    order = PackedOrder(lengths, 512, seed=1)
    first = [max(stop - start for _, start, stop in row) for row in all_rows(order)]
    ranks = np.argsort(np.argsort(first))
    assert abs(np.corrcoef(ranks, np.arange(ranks.size))[0, 1]) < 0.1
    places = order.rows(order.take(0, np.arange(len(order)))).documents
    assert abs(np.corrcoef(places, np.arange(places.size))[0, 1]) < 0.1


def test_packed_order_uses_almost_all_tokens_of_lognormal_lengths() -> None:
    lengths = np.random.default_rng(0).lognormal(np.log(400), 1, 200_000).astype(np.int64)
    assert PackedOrder(lengths, 4096, seed=1).counts.fill > 0.995
    short = lengths[lengths <= 4096]
    order = PackedOrder(short, 4096, split="never", seed=1)
    assert order.counts.fill > 0.995
    assert order.counts.packed_tokens == short.sum()


def test_packed_order_keeps_what_it_knows_of_the_lengths(tmp_path: Path) -> None:
    lengths = np.random.default_rng(0).integers(1, 50, 5000)
    np.save(tmp_path / "lengths.npy", lengths)

    def make(lengths: Any, data: str = "corpus") -> PackedOrder:
        return PackedOrder(lengths, 64, window=500, seed=2, data=data, cache=tmp_path / "cache")

    first = make(lengths)
    assert len(list((tmp_path / "cache").glob("*.index"))) == 1
    again = make(np.load(tmp_path / "lengths.npy", mmap_mode="r"))
    assert again.fingerprint == first.fingerprint == PackedOrder(lengths, 64, window=500, seed=2).fingerprint
    assert again.counts == first.counts
    assert all_rows(again, 1) == all_rows(first, 1) == all_rows(pickle.loads(pickle.dumps(again)), 1)  # noqa: S301
    lengths[17] += 1
    changed = make(lengths)
    with pytest.raises(RuntimeError, match=r"not those that PackedOrder\(.* pass another text for `data`"):
        all_rows(changed)
    assert all_rows(make(lengths, "changed corpus"))


def test_packed_order_compares_windows_without_rows_as_well(tmp_path: Path) -> None:
    def make(lengths: list[int]) -> PackedOrder:
        options: dict[str, Any] = {"split": "never", "too_long": "drop", "shuffle": False, "window": 2}
        return PackedOrder(lengths, 2, data="corpus", cache=tmp_path, **options)

    assert make([4, 4, 2, 1]).counts == make([4, 4, 2, 1]).counts
    with pytest.raises(RuntimeError, match="documents of window 0 are not those"):
        make([5, 4, 2, 1])


def test_packed_order_can_be_mixed() -> None:
    order = PackedOrder([3, 4, 5, 6] * 10, 10, seed=1)
    mix = MixedOrder([50, order], weights=[1, 1], num_samples=400, seed=1)
    found = [mix.locate(index) for index in mix.take(0, np.arange(400)).tolist()]
    rows = [index for part, index in found if part == 1]
    # Several epochs of the rows, one after the other.
    for begin in range(0, len(rows) - len(order), len(order)):
        documents = order.rows(rows[begin : begin + len(order)]).documents.tolist()
        assert sorted(documents) == list(range(40))


def test_packed_orders_in_a_mix_have_their_rows_with_documents_that_follow_each_other() -> None:
    sizes = [[3, 4, 5, 6] * 10, [2, 9] * 30]
    orders = [PackedOrder(lengths, 10, seed=1) for lengths in sizes]
    mix = MixedOrder(orders, weights=[1, 2], num_samples=200, seed=1)
    numbers = mix.take(1, np.arange(200))
    found = to_lists(mix.rows(numbers))
    for number, row in zip(numbers.tolist(), found, strict=True):
        part, index = mix.locate(number)
        expected = to_lists(orders[part].row(index))[0]
        assert row == [(document + part * len(sizes[0]), start, stop) for document, start, stop in expected]
    assert mix.rows([]).offsets.tolist() == [0]
    with pytest.raises(IndexError, match="positions must be from 0 to"):
        mix.rows([mix.num_items])
    with pytest.raises(TypeError, match=r"has no rows of documents: each of `parts` must be a PackedOrder"):
        MixedOrder([orders[0], 50], weights=[1, 1]).rows([0])


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([], 4), {}, ValueError, "`lengths` must be at least one number"),
        (([1.5], 4), {}, TypeError, "`lengths` must be an array of integers"),
        (([[1]], 4), {}, ValueError, "in one dimension"),
        (([3, -1], 4), {}, ValueError, r"`lengths\[1\]` must be at least 0, got -1"),
        (([0, 0], 4), {}, ValueError, "at least one short enough"),
        (([3], 0), {}, ValueError, "`length` must be an int from 1 to 16777216"),
        (
            ([3], 4),
            {"algorithm": "worst-fit"},
            ValueError,
            "`algorithm` must be 'best-fit', 'first-fit', 'concat' or 'none'",
        ),
        (([3], 4), {"split": "always"}, ValueError, "With algorithm='concat', all documents may be divided"),
        (([3], 4), {"split": "some"}, ValueError, "`split` must be"),
        (([3], 4), {"align": 3}, ValueError, "`align` must be a divisor of the 4 tokens of a row, got 3"),
        (([3], 4), {"too_long": "truncate"}, ValueError, "`too_long` must be 'error' or 'drop'"),
        (([3], 4), {"window": 0}, ValueError, "`window` must be"),
        (([3], 4), {"data": 5}, TypeError, "`data` must be a str"),
        (
            ([3, 9, 5], 4),
            {"split": "never"},
            ValueError,
            r"lengths\[1\] is 9 tokens, more than the 4 .* split='long'",
        ),
    ],
)
def test_packed_order_refuses_what_makes_no_sense(
    arguments: tuple[Any, Any], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        PackedOrder(*arguments, **options)


def test_packed_order_refuses_rows_that_it_does_not_have() -> None:
    order = PackedOrder([3, 4], 10)
    with pytest.raises(IndexError, match="positions must be from 0 to"):
        order.rows([-1])
    assert order.row(int(order.take(0, np.array([0]))[0])).documents.size == 2
    assert order.rows([]).offsets.tolist() == [0]
