"""The worker's loop, which is written out for speed, does what the methods do that it stands for."""

from __future__ import annotations

import itertools
import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.support import source

from spdl.pipeline._engine import channel, worker
from spdl.pipeline._engine.worker import carry
from spdl.pipeline._report import counters as counters_module
from spdl.pipeline._stages import function
from spdl.pipeline._stages.function import FunctionNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline._engine.engine import Engine

# An engine lets go of everything when its pipeline is gone.
pipelines: list[object] = []

OUTCOMES = ("value", "none", "error", "generator")


def op(item: str) -> Any:
    def generate() -> Iterator[str]:
        yield item

    if item == "error":
        raise ValueError(item)
    return {"value": item, "none": None, "generator": generate()}[item]


STATES = st.fixed_dictionaries(
    {
        "waiting": st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=4),
        "running": st.integers(0, 2),
        "finished": st.integers(0, 2),
        "tickets": st.none() | st.lists(st.booleans(), max_size=3),
        "completed": st.integers(0, 600),
        "measured_later": st.booleans(),
    }
)


def node_in_state(state: dict[str, Any]) -> tuple[Engine, FunctionNode]:
    pipeline = source([]).pipe(op, concurrency=4, name="op").add_sink(8).build(num_threads=2)
    pipelines.append(pipeline)
    engine = pipeline._engine
    (node,) = engine.nodes
    assert isinstance(node, FunctionNode)
    for item in state["waiting"]:
        node.input.put((engine.lineage.admit(0), item), 1.0)
        engine.arrived(node)
    for _ in range(state["finished"]):
        engine.sink.put((engine.lineage.admit(0), "before"), 1.0)
    node.running = state["running"]
    if state["tickets"] is not None:
        ordered = source([]).pipe(op, output_order="input").add_sink(1).build(num_threads=1)._engine.nodes[0]
        node.order = ordered.order
        assert node.order is not None
        for done in state["tickets"]:
            ticket = node.order.admit()
            if done:
                node.order.finish(ticket, (engine.lineage.admit(0), "ordered"))
    counters = node.counters
    counters.completed = counters.emitted = state["completed"]
    if state["measured_later"]:
        counters.weight, counters.sample_at = 7, state["completed"] + 100
    return engine, node


def seen(engine: Engine, node: FunctionNode) -> dict[str, Any]:
    """Return all of the state that does not tell the time."""
    counters, order = node.counters, node.order
    names = ("completed", "emitted", "failed", "dropped", "retried", "overdue", "steps", "sample_at", "weight")
    return {name: getattr(counters, name) for name in names} | {
        "running": node.running,
        "plain": node.plain,
        "queue": list(node.queue),
        "sink": list(engine.sink.entries),
        "fill": (counters.queue.fill, engine.sink.counters.fill),
        "late": (len(counters.queue.late), counters.queue.num_late),
        "waits": counters.waiting_for,
        "idle": counters.waiting_since > 0,
        "tickets": None if order is None else [(each.done, list(each.results)) for each in order.tickets],
        "buffered": None if order is None else order.buffered,
        "parked": len(node.parked),
        "turns": engine.waiting,
        "permits": engine.workers.permits,
        "out": engine.lineage.snapshot(),
        "failures": [failed.item for failed in engine.failures.quarantine.items()],
        "measured": sum(counters.times.counts),
        "no tasks": counters.other_seconds > 0,
    }


@contextmanager
def steady_clock() -> Iterator[None]:
    """Have every look at a clock take a microsecond, so that all ops are short."""
    ticks = itertools.count(1)
    with ExitStack() as stack:
        for module in (channel, worker, counters_module, function):
            for name in ("perf_counter", "thread_time"):
                if hasattr(module, name):
                    stack.enter_context(patch.object(module, name, lambda: next(ticks) * 1e-6))
        yield


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=150, deadline=None)
@given(state=STATES)
def test_the_loop_does_what_a_turn_does(state: dict[str, Any]) -> None:
    logging.disable()
    try:
        results = []
        for written_out in (True, False):
            engine, node = node_in_state(state)
            with steady_clock(), engine.lock:
                if written_out:
                    carry(engine, node, None, [], engine.page.spare)
                else:
                    node.turn()
            results.append(seen(engine, node))
        assert results[0] == results[1]
    finally:
        pipelines.clear()
        logging.disable(logging.NOTSET)


def test_the_states_are_told_apart() -> None:
    state = {
        "waiting": ["value"],
        "running": 0,
        "finished": 0,
        "tickets": None,
        "completed": 0,
        "measured_later": False,
    }
    engine, node = node_in_state(state)
    before = seen(engine, node)
    with engine.lock:
        carry(engine, node, None, [], engine.page.spare)
    after = seen(engine, node)
    changed = {name for name in before if before[name] != after[name]}
    assert {"completed", "emitted", "queue", "sink", "fill", "turns", "measured"} <= changed
