"""Every position is granted to one owner at a time, received from one, and delivered once, whatever happens."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spdl.ray import LeaseTable


class Leases(RuleBasedStateMachine):
    """A table beside a model of it that knows each position by itself."""

    @initialize(length=st.integers(0, 60), lease=st.integers(1, 9), aligned=st.booleans(), known=st.booleans())
    def begin(self, length: int, lease: int, *, aligned: bool, known: bool) -> None:
        self.length, self.lease, self.aligned, self.known = length, lease, aligned, known
        self.ended = known
        self.table = LeaseTable(length if known else None, lease, aligned=aligned)
        self.held: dict[int, set[int]] = {0: set(), 1: set()}
        self.dead: dict[int, set[int]] = {}
        self.in_hand: set[int] = set()
        self.delivered: set[int] = set()
        self.granted: set[int] = set()
        self.next_owner = 2

    @rule(owner=st.integers(0, 10), most=st.none() | st.integers(1, 5))
    def grant(self, owner: int, most: int | None) -> None:
        owners = sorted(self.held)
        owner = owners[owner % len(owners)]
        free = self.table.next_free()
        granted = self.table.grant(owner, most)
        assert (granted is None) == (free is None)
        if granted is None:
            return
        start, stop = granted
        assert start == free
        assert 0 < stop - start <= self.lease
        if self.aligned:
            assert start // self.lease == (stop - 1) // self.lease
        elif most is not None:
            assert stop - start <= most
        positions = set(range(start, stop))
        taken = self.in_hand | self.delivered | set().union(*self.held.values())
        assert not positions & taken, "a position was granted twice"
        if self.ended:
            assert stop <= self.length
        self.held[owner] |= positions
        self.granted |= positions

    @rule(owner=st.integers(0, 10), data=st.data())
    def receive(self, owner: int, data: st.DataObject) -> None:
        owners = sorted(self.held)
        owner = owners[owner % len(owners)]
        have = sorted(self.held[owner] & set(range(self.length)))
        some = data.draw(st.sets(st.sampled_from(have))) if have else set[int]()
        # What it does not have is not accepted.
        others = data.draw(st.sets(st.integers(0, 70), max_size=3)) - set(have)
        accepted = self.table.receive(owner, [(each, each + 1) for each in sorted(some | others)])
        got = {position for start, stop in accepted for position in range(start, stop)}
        assert got == some | (others & self.held[owner])
        self.held[owner] -= got
        self.in_hand |= got

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        if self.in_hand:
            some = data.draw(st.sets(st.sampled_from(sorted(self.in_hand))))
            self.table.deliver([(each, each + 1) for each in some])
            self.in_hand -= some
            self.delivered |= some

    @rule(owner=st.integers(0, 10))
    def lose(self, owner: int) -> None:
        owners = sorted(self.held)
        owner = owners[owner % len(owners)]
        back = {position for start, stop in self.table.lose(owner) for position in range(start, stop)}
        assert back == self.held[owner]
        self.dead[owner] = self.held.pop(owner)
        self.held[self.next_owner] = set()
        self.next_owner += 1

    @precondition(lambda self: self.dead)
    @rule(owner=st.integers(0, 10))
    def arrive_late(self, owner: int) -> None:
        owners = sorted(self.dead)
        owner = owners[owner % len(owners)]
        assert self.table.receive(owner, [(each, each + 1) for each in self.dead[owner]]) == []

    @precondition(
        lambda self: not self.ended and any(max(held, default=-1) >= self.length for held in self.held.values())
    )
    @rule()
    def see_the_end(self) -> None:
        self.ended = True
        self.table.end_at(self.length)
        within = set(range(self.length))
        self.held = {owner: held & within for owner, held in self.held.items()}
        self.in_hand &= within
        self.granted &= within

    @rule()
    def go_on_elsewhere(self) -> None:
        """A new table has what was not delivered, and nothing else."""
        position, out = self.table.undelivered()
        length = self.length if self.ended else None
        left = LeaseTable(length, self.lease, position=position, out=out, aligned=self.aligned)
        rest: list[int] = []
        while (granted := left.grant("other")) is not None and granted[0] < 100:
            rest += range(*granted)
        rest = [position for position in rest if position < self.length]
        assert sorted(rest) == sorted(set(range(self.length)) - self.delivered)

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "table"):
            return
        for owner, held in self.held.items():
            assert self.table.held_by(owner) == len(held)
        if self.ended:
            done = self.in_hand | self.delivered
            assert self.table.is_over() == (set(range(self.length)) <= done)
            lowest = min(set(range(self.length)) - self.delivered, default=None)
            if lowest is not None:
                assert self.table.lowest() == lowest


Leases.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_no_position_is_lost_or_doubled = Leases.TestCase


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60), st.integers(1, 7))
def test_all_is_delivered_once_whoever_is_lost(script: list[tuple[int, bool]], lease: int) -> None:
    table = LeaseTable(50, lease)
    came: list[int] = []
    numbers = [0, 1, 2, 3]
    following = 4

    def work(place: int, *, dies: bool) -> bool:
        nonlocal following
        granted = table.grant(numbers[place])
        if granted is None:
            return False
        if dies:
            table.lose(numbers[place])
            numbers[place], following = following, following + 1
        else:
            for start, stop in table.receive(numbers[place], [granted]):
                came.extend(range(start, stop))
            table.deliver([granted])
        return True

    for place, dies in script:
        work(place, dies=dies)
    while work(0, dies=False):
        pass
    assert sorted(came) == list(range(50))
    assert table.is_over()
    assert table.undelivered() == (50, [])


def test_memory_does_not_grow_with_positions() -> None:
    def size(table: LeaseTable) -> int:
        parts = [table._back, table._received, *table._granted.values()]
        return sum(sys.getsizeof(ranges._starts) + sys.getsizeof(ranges._stops) for ranges in parts)

    sizes = []
    for length in (1_000, 100_000):
        table = LeaseTable(length, lease=10)
        most = 0
        granted = {owner: table.grant(owner) for owner in range(4)}
        while any(granted.values()):
            for owner, each in granted.items():
                if each is not None:
                    table.receive(owner, [each])
                    table.deliver([each])
                    most = max(most, size(table))
                    granted[owner] = table.grant(owner)
        sizes.append(most)
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"length": -1, "lease": 1}, "length"),
        ({"length": 5, "lease": 0}, "lease"),
        ({"length": 5, "lease": 1, "position": 6}, "position"),
        ({"length": "5", "lease": 1}, "length"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        LeaseTable(**arguments)  # type: ignore[arg-type]
