"""Ctrl-C at any moment costs no item and brings none twice, and the loop goes on after it."""

from __future__ import annotations

import gc
import json
import random
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.ray.work import await_that, config, is_free, slowly

from spdl.ray import LeaseTable, run_on_ray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

    from spdl.ray import RayLoader

_OURS = "/spdl/ray/"


@contextmanager
def _interrupted(after: int) -> Iterator[None]:
    """Raise KeyboardInterrupt at one of the places where Python does: where a function of spdl.ray is entered."""
    left = after

    def trace(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if _OURS in frame.f_code.co_filename:
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _read(loader: RayLoader[Any], got: list[Any], r: random.Random) -> int:
    cuts = 0
    # So many that some come while the actors start, some in the middle, and some at the end.
    while cuts < 8:
        try:
            with _interrupted(r.choice([1, 5, 20, 40, 80, 160, 320, 640])):
                # An item on its way from the iterator into the list cannot be interrupted.
                got.extend(loader)
        except KeyboardInterrupt:
            cuts += 1
            assert json.dumps(loader.state_dict())
        else:
            return cuts
    got.extend(loader)
    return cuts


def _twice(x: int) -> Iterable[int]:
    yield x
    yield x + 1000


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("order", ["completion", "input"])
def test_a_loop_that_is_interrupted_anywhere_goes_on(order: Any) -> None:
    r = random.Random(order)  # noqa: S311 - no secret.
    declared = config(range(150), slowly, _twice, order=order)
    expected = [each for x in range(150) for each in _twice(x)]
    loader = run_on_ray(declared, num_actors=2, lease=20, order=order, num_threads=2)
    cuts = 0
    with loader.auto_stop():
        for epoch in range(2):
            got: list[int] = []
            cuts += _read(loader, got, r)
            assert (got if order == "input" else sorted(got)) == (expected if order == "input" else sorted(expected))
            assert loader.state_dict()["epoch"] == epoch + 1
    assert cuts > 5
    del loader
    gc.collect()
    await_that(is_free, "no actor is left that was started when the interrupt came")


@pytest.mark.parametrize("seed", range(20))
def test_no_position_is_missing_in_a_table_that_was_interrupted(seed: int) -> None:
    r = random.Random(seed)  # noqa: S311 - no secret.
    table = LeaseTable(r.choice([60, None]), 7, aligned=r.random() < 0.5)
    delivered: set[int] = set()
    granted: dict[int, list[tuple[int, int]]] = {}
    received: list[tuple[int, int]] = []
    following = 0
    for _ in range(300):
        delivering: list[tuple[int, int]] = []
        try:
            with _interrupted(r.randrange(1, 12)):
                step = r.choice(["grant", "receive", "deliver", "lose"])
                if step == "grant" and (run := table.grant(following)) is not None:
                    granted.setdefault(following, []).append(run)
                    following += r.random() < 0.5
                elif step == "receive" and granted:
                    owner = r.choice(sorted(granted))
                    received += table.receive(owner, [(start, stop - 1) for start, stop in granted[owner]])
                elif step == "deliver" and received:
                    delivering = [received.pop()]
                    table.deliver(delivering)
                elif step == "lose" and granted:
                    owner = r.choice(sorted(granted))
                    table.lose(owner)
                    del granted[owner]
        except KeyboardInterrupt:
            # What its user does: deliver again what was under way, and go on with another table.
            table.deliver(delivering)
            table = table.renew()
            granted.clear()
            received.clear()
        delivered |= {each for start, stop in delivering for each in range(start, stop)}
        position, out = table.undelivered()
        left = {each for start, stop in out for each in range(start, stop)}
        assert left.isdisjoint(delivered)
        assert left | delivered == set(range(position))
