"""The benchmark of `spdl why` judges each claim by what its rounds found."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.importing import importable
from tests.observe.bottlenecks import BOTTLENECKS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


@pytest.fixture(scope="module")
def why() -> Iterator[ModuleType]:
    with importable("benchmarks"):
        yield importlib.import_module("why")


def found(gain: float | None = 4.0, predicted: float | None = 4.0, seconds: float = 1.4) -> dict[str, Any]:
    """Return what a round finds; without a gain the verdict was wrong."""
    verdict = {"predicted_gain": predicted}
    one: dict[str, Any] = {"right": gain is not None, "seconds": seconds, "verdict": verdict}
    return one if gain is None else one | {"gain": gain}


@pytest.mark.parametrize(
    ("name", "rounds", "held"),
    [
        ("io", [found(), found(), found()], {"right": True, "seconds": True, "ratio": True}),
        # One wrong verdict, or one late one, is one too many.
        ("io", [found(), found(None), found()], {"right": False, "seconds": True, "ratio": True}),
        ("io", [found(), found(seconds=2.1), found()], {"right": True, "seconds": False, "ratio": True}),
        # The median of the predictions is off by more than a quarter, in either direction.
        ("io", [found(3.1), found(3.1), found(4.0)], {"right": True, "seconds": True, "ratio": False}),
        ("io", [found(5.5), found(5.5), found(4.0)], {"right": True, "seconds": True, "ratio": False}),
        ("io", [found(3.3), found(4.0), found(9.0)], {"right": True, "seconds": True, "ratio": True}),
        ("io", [found(predicted=None)], {"right": True, "seconds": True, "ratio": False}),
        ("io", [found(None)], {"right": False, "seconds": True}),
        # What cannot be predicted must not be.
        ("oversubscription", [found(1.1, None)], {"right": True, "seconds": True, "unpredicted": True}),
        ("oversubscription", [found(1.1, 1.1)], {"right": True, "seconds": True, "unpredicted": False}),
        ("hang", [{"right": True, "seconds": 1.4}], {"right": True, "seconds": True}),
    ],
)
def test_the_claims(why: ModuleType, name: str, rounds: list[dict[str, Any]], held: dict[str, bool]) -> None:
    judged = why.judge(BOTTLENECKS[name], rounds)
    assert judged["held"] == held
    line = why.shown(name, judged, len(rounds))
    assert [claim for claim, holds in held.items() if not holds] == line.partition(" MISSED ")[2].split(", ")[
        : len(held) - sum(held.values())
    ]


def test_a_verdict_gives_the_arguments_of_the_remedied_program() -> None:
    verdict = {"settings": {"concurrency": 11, "num_threads": 13}}
    assert BOTTLENECKS["io"].remedied(verdict) == ["11", "13"]
    assert BOTTLENECKS["serial_source"].remedied(verdict) == ["11"]
    assert BOTTLENECKS["retries"].remedied({"settings": {}}) == ["0"]
