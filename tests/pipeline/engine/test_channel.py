"""The rule that says when a stage may take an item, and the copies of it that are written out for speed."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.support import source

from spdl.pipeline._engine import source as source_module
from spdl.pipeline._engine import worker
from spdl.pipeline._engine.channel import ADMITTED, AHEAD, SLOTS_TAKEN, Channel, Order, Sink
from spdl.pipeline._report.counters import BLOCKED, HELD
from spdl.pipeline._stages.function import FunctionNode

if TYPE_CHECKING:
    from types import ModuleType

    from spdl.pipeline._engine.source import Source

COUNTS = st.integers(0, 5)


def filled(channel: Channel, entries: int) -> Channel:
    channel.entries.extend([(position, None) for position in range(entries)])
    return channel


def order_with(tickets: int | None) -> Order | None:
    if tickets is None:
        return None
    order = Order()
    for _ in range(tickets):
        order.admit()
    return order


@given(
    kind=st.sampled_from([Channel, Sink]),
    capacity=COUNTS,
    entries=COUNTS,
    slots=st.tuples(COUNTS, COUNTS, st.integers(1, 4)),
    tickets=st.none() | st.integers(0, 8),
)
def test_the_rule(
    kind: type[Channel], capacity: int, entries: int, slots: tuple[int, int, int], tickets: int | None
) -> None:
    channel = filled(kind(capacity), entries)
    running, parked, concurrency = slots
    under_way = max(0, running - parked)
    # Told in words: a slot is free, the ordered results that wait are not too many, and the result finds a place, be it
    # in a slot of the stage.
    expected = ADMITTED
    if running >= concurrency:
        expected = SLOTS_TAKEN
    elif tickets is not None and tickets >= concurrency + AHEAD:
        expected = HELD
    elif entries + under_way >= capacity + concurrency:
        expected = BLOCKED
    assert channel.verdict(running, under_way, concurrency, order_with(tickets)) == expected
    # Whoever finds the sink full leaves word for the consumer.
    if isinstance(channel, Sink):
        assert channel.full == (expected == BLOCKED)


def inlined_rules(module: ModuleType) -> list[ast.expr]:
    """Return the conditions of a module that look at a stage's slots: the copies of the rule."""
    tree = ast.parse(inspect.getsource(module))
    tests = [node.test for node in ast.walk(tree) if isinstance(node, ast.If)]
    return [test for test in tests if ".room" in ast.unparse(test)]


def node_in_state(state: dict[str, Any]) -> FunctionNode:
    pipeline = source([]).pipe(lambda x: x, concurrency=state["concurrency"]).add_sink(1).build(num_threads=1)
    (node,) = pipeline._engine.nodes
    assert isinstance(node, FunctionNode)
    node.write_to(filled(Channel(state["capacity"]), state["entries"]), None)
    node.order = order_with(state["tickets"])
    node.running = state["running"]
    filled(node.input, state["waiting"])
    if state["cancelled"]:
        node.give_up_work()
    return node


STATES = st.fixed_dictionaries(
    {
        "capacity": COUNTS,
        "concurrency": st.integers(1, 4),
        "entries": COUNTS,
        "running": COUNTS,
        "tickets": st.none() | st.integers(0, 8),
        "waiting": st.sampled_from([0, 0, 1]),
        "cancelled": st.sampled_from([False, False, False, True]),
        "permits": st.integers(-1, 1),
    }
)


@pytest.mark.parametrize("copy", [0, 1])
@given(state=STATES)
def test_the_copies_in_the_workers_loop_say_the_same(copy: int, state: dict[str, Any]) -> None:
    rules = inlined_rules(worker)
    assert len(rules) == 2
    (name,) = {name.id for name in ast.walk(rules[copy]) if isinstance(name, ast.Name)} - {
        "source",
        "engine",
        "workers",
        "len",
        "AHEAD",
    }
    node = node_in_state(state)
    node.engine.workers.permits = state["permits"]
    names = {
        name: node,
        "source": node.engine.sources[0],
        "engine": node.engine,
        "workers": node.engine.workers,
        "AHEAD": AHEAD,
    }
    said = bool(eval(compile(ast.Expression(rules[copy]), "rule", "eval"), {}, names))  # noqa: S307 - our own code.
    expected = not node.queue and node.admits()
    # A worker that carries an item on has a permit already.
    expected = expected and state["permits"] >= (1 if name == "first" else 0)
    assert said == expected


@given(state=STATES)
def test_the_stage_itself_says_the_same(state: dict[str, Any]) -> None:
    node = node_in_state(state)
    assert node.can_start() == (bool(node.queue) and node.admits())


@given(st.integers(0, 4), st.integers(1, 4))
def test_the_source_says_the_same(entries: int, capacity: int) -> None:
    assert "len(self.out) < output.capacity" in inspect.getsource(source_module)
    pipeline = source([]).pipe(lambda x: x).add_sink(1).build(num_threads=1)
    each: Source = pipeline._engine.sources[0]
    each.output.set_capacity(capacity)
    filled(each.output, entries)
    assert bool(each.pullable()) == each.has_place() == each.output.has_place() == (entries < capacity)


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 4))
def test_late_entries_are_those_beyond_the_capacity(puts: list[bool], capacity: int) -> None:
    channel = Channel(capacity)
    late = 0
    for number, put in enumerate(puts):
        if put:
            channel.put((number, number), now=1.0 + number)
            late += len(channel.entries) > capacity
        elif channel.entries:
            channel.take_uncounted(item=True)
        counters = channel.counters
        assert len(counters.late) == max(0, channel.excess())
        assert counters.num_late + len(counters.late) == late


def test_the_sources_items_are_never_late() -> None:
    async def op(item: int) -> int:
        return item

    # In front of the event loop, free slots count as places.
    with source(range(500)).pipe(op, concurrency=32).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert len(list(pipeline)) == 500
    counters = pipeline._engine.nodes[0].input.counters
    assert (counters.num_late, counters.put_seconds) == (0, 0.0)
