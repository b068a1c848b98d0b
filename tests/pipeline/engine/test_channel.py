"""The rule that says when a stage may take an item, and what the stage makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.support import source

from spdl.pipeline._engine.channel import ADMITTED, AHEAD, SLOTS_TAKEN, Channel, Order, Sink
from spdl.pipeline._report.counters import BLOCKED, HELD, STARVED
from spdl.pipeline._stages.function import FunctionNode

if TYPE_CHECKING:
    from spdl.pipeline import Pipeline
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


def node_in_state(state: dict[str, Any]) -> tuple[Pipeline[Any], FunctionNode]:
    """Return a stage, and its pipeline: an engine lets go of everything when its pipeline is gone."""
    pipeline = source([]).pipe(lambda x: x, concurrency=state["concurrency"]).add_sink(1).build(num_threads=1)
    (node,) = pipeline._engine.nodes
    assert isinstance(node, FunctionNode)
    node.write_to(filled(Channel(state["capacity"]), state["entries"]), None)
    node.order = order_with(state["tickets"])
    node.running = state["running"]
    filled(node.input, state["waiting"])
    if state["cancelled"]:
        node.give_up_work()
    return pipeline, node


STATES = st.fixed_dictionaries(
    {
        "capacity": COUNTS,
        "concurrency": st.integers(1, 4),
        "entries": COUNTS,
        "running": COUNTS,
        "tickets": st.none() | st.integers(0, 8),
        "waiting": st.sampled_from([0, 0, 1]),
        "cancelled": st.sampled_from([False, False, False, True]),
    }
)


@given(state=STATES)
def test_a_stage_follows_the_rule_and_notes_what_it_waits_for(state: dict[str, Any]) -> None:
    _pipeline, node = node_in_state(state)
    order = order_with(state["tickets"])
    rule = node.output.verdict(state["running"], state["running"], state["concurrency"], order)
    assert node.admits() == (rule == ADMITTED and not state["cancelled"])
    if rule in (BLOCKED, HELD) and not state["cancelled"]:
        assert node.counters.waiting_for == rule
        assert node.counters.waiting_since > 0
    assert node.can_start() == (bool(node.queue) and node.admits())


def test_a_carried_item_ends_a_wait_for_room_and_is_counted_as_waited_for() -> None:
    state = {"capacity": 2, "concurrency": 2, "entries": 0, "running": 0, "tickets": None, "waiting": 0}
    pipeline, node = node_in_state(state | {"cancelled": False})
    counters = node.counters
    counters.wait(BLOCKED)
    with pipeline._engine.lock:
        node.start(0, [1])
    assert counters.waits[BLOCKED] > 0
    assert counters.waiting_for == STARVED
    assert sum(counters.queue.get_times.counts) == 1


@given(st.integers(0, 4), st.integers(1, 4))
def test_the_source_says_the_same(entries: int, capacity: int) -> None:
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
