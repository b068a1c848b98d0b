"""Each range lies in one block, and blocks are no longer than they may be."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from spdl.store._reading.plan import cut_out, merge_ranges, split_evenly

RANGES = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 300)), max_size=30)
CONTENT = bytes(i * i % 251 for i in range(3300))


@given(ranges=RANGES, gap=st.integers(0, 200), most=st.integers(1, 1000))
def test_blocks_cover_the_ranges(ranges: list[tuple[int, int]], gap: int, most: int) -> None:
    starts, lengths = [s for s, _ in ranges], [n for _, n in ranges]
    blocks = merge_ranges(starts, lengths, gap=gap, most=most)
    members = [index for block in blocks for index in block.ranges]
    assert sorted(members) == [i for i, length in enumerate(lengths) if length]
    found: dict[int, memoryview] = {}
    for block in blocks:
        own = [(starts[i], starts[i] + lengths[i]) for i in block.ranges]
        assert block.start == min(begin for begin, _ in own)
        assert block.start + block.length == max(end for _, end in own)
        assert block.length <= most or len(own) == 1
        # Nothing is read in vain but gaps that are short enough.
        asked = {byte for begin, end in own for byte in range(begin, end)}
        run = 0
        for byte in range(block.start, block.start + block.length):
            run = 0 if byte in asked else run + 1
            assert run <= gap
        found |= dict(cut_out(block, memoryview(CONTENT)[block.start :][: block.length], starts, lengths))
    assert {i: bytes(part) for i, part in found.items()} == {i: CONTENT[starts[i] :][: lengths[i]] for i in members}


@given(ranges=RANGES, gap=st.integers(0, 200))
def test_neighbours_share_a_block(ranges: list[tuple[int, int]], gap: int) -> None:
    blocks = merge_ranges([s for s, _ in ranges], [n for _, n in ranges], gap=gap, most=10_000)
    for first, second in itertools.pairwise(blocks):
        assert second.start - (first.start + first.length) > gap


@given(length=st.integers(0, 10**12), parts=st.integers(1, 50))
def test_splits_are_even(length: int, parts: int) -> None:
    most = max(1, length // parts)
    found = split_evenly(length, most)
    assert found[0][0] == 0
    assert all(a + n == b for (a, n), (b, _) in itertools.pairwise(found))
    assert sum(n for _, n in found) == length
    assert max(n for _, n in found) <= most
    assert max(n for _, n in found) - min(n for _, n in found) <= 1
    assert len(found) == max(1, -(-length // most))
