"""Test items whose methods all raise, that are as long as a file, or that act when they are finalized.

Each case must follow the rule of `test_fault_errors`.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.kinds import KINDS, Item, Items, Kind
from tests.pipeline.support import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import Pipeline

COUNT = 12
BAD = 5
DEADLINE = 10
HUGE = 200_000_000

AT_HOME = [kind for kind in KINDS if kind.name != "processes"]


class Hostile(Item):
    """An item whose special methods all raise."""

    def refuse(self, *_: object) -> Any:
        raise RuntimeError("not for the engine")

    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = refuse
    __hash__ = __bool__ = __len__ = __repr__ = __str__ = __iter__ = __contains__ = refuse
    __await__ = __aiter__ = __next__ = __call__ = __index__ = __format__ = refuse

    @property
    def __class__(self) -> Any:
        raise RuntimeError("not for the engine")

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        raise RuntimeError("not for the engine")


def same(x: Item) -> Item:
    return x


def fails(x: Item) -> Item:
    if x.number == BAD:
        raise ValueError("this one")
    return x


def read(pipeline: Pipeline[Any]) -> list[int]:
    with pipeline.auto_stop(timeout=DEADLINE):
        got = []
        for item in pipeline.get_iterator(timeout=DEADLINE):
            got.append(item.number)
            del item
        return got


@pytest.mark.parametrize("kind", AT_HOME, ids=str)
def test_items_that_refuse_everything(kind: Kind) -> None:
    items = Items(COUNT, Hostile)
    with kind.pipeline(same, items) as pipeline:
        assert sorted(read(pipeline)) == list(range(COUNT))
    del pipeline
    assert wait_until(lambda: not items.alive())


@pytest.mark.parametrize("kind", [kind for kind in AT_HOME if kind.on_error == "drop"], ids=str)
def test_failing_items_that_refuse_everything(kind: Kind) -> None:
    with kind.pipeline(fails, Items(COUNT, Hostile)) as pipeline:
        assert sorted(read(pipeline)) == [number for number in range(COUNT) if number != BAD]
        for failed in pipeline.failures():
            assert "ValueError" in failed.error


class Large(Item):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        # The system allocates pages of zeros only when they are touched, and nothing touches these.
        self.data = bytes(HUGE)

    def __repr__(self) -> str:
        return "x" * 10_000_000


@pytest.mark.parametrize("kind", AT_HOME, ids=str)
def test_items_as_long_as_a_file(kind: Kind) -> None:
    items = Items(COUNT, Large)
    op = same if kind.on_error == "fail" else fails
    with kind.pipeline(op, items) as pipeline:
        hit = [BAD] if op is fails and kind.on_error == "drop" else []
        assert sorted([*read(pipeline), *hit]) == list(range(COUNT))
        assert all(len(failed.item) < 1000 for failed in pipeline.failures())
        # The pipeline still exists, but none of its items, unless the next epoch has begun.
        assert kind.name == "continuous_source" or wait_until(lambda: not items.alive())


def test_an_item_as_long_as_a_file_from_another_process() -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "processes")
    with kind.pipeline(grow, Items(3)) as pipeline, pipeline.auto_stop(timeout=DEADLINE):
        assert [len(data) for data in pipeline.get_iterator(timeout=30)] == [HUGE // 4] * 3


def grow(_: Item) -> bytes:
    return bytes(HUGE // 4)


class Goes(Item):
    """An item that acts when it is finalized."""

    act: Callable[[], object]

    def __del__(self) -> None:
        type(self).act()


ENDS: dict[str, Callable[[Pipeline[Any]], object]] = {
    "stops": lambda pipeline: pipeline.stop(),
    "looks": lambda pipeline: (pipeline.statistics(), pipeline.failures(), repr(pipeline)),
    "waits_for_a_lock": lambda pipeline: None,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", AT_HOME, ids=str)
def test_items_that_do_something_when_they_go(kind: Kind, end: str) -> None:
    # Without the GIL, an item may be finalized anywhere in the thread that made it, also in the `act` of another one.
    lock = threading.RLock()
    gone: list[float] = []
    reader = threading.get_ident()

    class Item(Goes):
        @staticmethod
        def act() -> None:
            ENDS[end](pipeline)
            # Another thread of the program may hold this lock while it calls the pipeline.
            if threading.get_ident() != reader:
                with lock:
                    gone.append(1)

    items = Items(COUNT, Item)
    with kind.pipeline(fails if kind.on_error == "drop" else same, items, sink=1) as pipeline:
        pipeline.start()
        got = []
        for item in pipeline.get_iterator(timeout=DEADLINE):
            with lock:
                got.append(item.number)
                pipeline.statistics()
            del item
        pipeline.stop(timeout=DEADLINE)
        assert not [thread for thread in pipeline._engine.all_threads() if thread.is_alive()]
        assert max(Counter(got).values(), default=1) == 1
        if end != "stops":
            hit = [BAD] if kind.on_error == "drop" else []
            assert sorted([*got, *hit]) == list(range(COUNT))
            assert kind.name == "continuous_source" or wait_until(lambda: not items.alive())
