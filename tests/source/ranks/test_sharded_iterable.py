"""The parts of all ranks are of one length, whatever is shared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import shard
from spdl.testing import assert_equal_steps

# Tests of how many a rank gets may have more ranks than samples.
pytestmark = pytest.mark.filterwarnings("ignore:Rank .* gets none of the")


@given(st.integers(0, 30), st.integers(1, 7), st.booleans())
def test_all_ranks_get_as_many_and_every_item_is_accounted_for(n: int, world_size: int, as_sequence: bool) -> None:  # noqa: FBT001
    def source() -> Any:
        return range(n) if as_sequence else dict.fromkeys(range(n))

    dropped = [list(shard(source(), rank, world_size)) for rank in range(world_size)]
    assert dropped == [list(range(rank, n - n % world_size, world_size)) for rank in range(world_size)]
    padded = [list(shard(source(), rank, world_size, stop="pad")) for rank in range(world_size)]
    assert {len(part) for part in padded} == {-(-n // world_size)}
    assert {item for part in padded for item in part} == set(range(n))
    repeated = sum(map(len, padded)) - n
    assert repeated == -n % world_size


def test_a_sequence_is_asked_for_the_ranks_own_items_alone() -> None:
    class Asked(list[int]):
        def __init__(self) -> None:
            super().__init__(range(10))
            self.indices: list[Any] = []

        def __getitem__(self, index: Any) -> Any:
            self.indices.append(index)
            return super().__getitem__(index)

    source = Asked()
    part = shard(source, 1, 4, stop="pad")
    assert list(part) == list(part) == [1, 5, 9]
    assert source.indices == [1, 5, 9] * 2


@pytest.mark.parametrize("stop", ["drop", "pad"])
def test_ranks_take_equal_steps(stop: Any) -> None:
    assert_equal_steps(lambda rank, world_size: shard("abcdefghijk", rank, world_size, stop=stop))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="agree"):
        shard([1], 0, 1, stop="agree")
    with pytest.raises(ValueError, match="agree"):
        shard([1], 0, 1, agree=lambda _: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="rank"):
        shard([1], 3, 2)
    with pytest.raises(ValueError, match="stop"):
        shard([1], 0, 2, stop="later")  # type: ignore[arg-type]
