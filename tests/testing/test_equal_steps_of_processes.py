"""Ranks that wait for each other in every step end after the same one, with corrupt files on one rank only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)

RANKS = 4


class Told(NamedTuple):
    """What each rank tells: the steps of each sharding, how many files were replaced, and the steps agreed on."""

    shardings: int
    steps: list[dict[str, int]]
    replaced: list[int]
    agreed: list[dict[str, int]]


@pytest.fixture(scope="module", params=[150, pytest.param(1000, marks=pytest.mark.long)])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Run four processes that live through all shardings, and return what they tell."""
    folder = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).with_name("gloo_ranks.py")
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder), str(rank), str(RANKS), str(request.param)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        ended = [rank.communicate(timeout=280) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    # The first one to fail takes the others with it, and any of them may be the first to say so.
    failed = [
        f"rank {rank} returned {process.returncode}:\n{errors[-3000:]}"
        for rank, (process, (_, errors)) in enumerate(zip(ranks, ended, strict=True))
        if process.returncode != 0
    ]
    assert not failed, "\n".join(failed)
    return Told(request.param, *map(list, zip(*(json.loads(output) for output, _ in ended), strict=True)))


def are_equal(steps: list[dict[str, int]], shardings: int) -> None:
    # A process counts the shardings that it took part in: the first two ranks, all of them.
    assert steps[0] == steps[1]
    assert len(steps[0]) == shardings
    for of_rank in steps[2:]:
        assert shardings / 10 < len(of_rank) < shardings
        assert of_rank.items() <= steps[0].items()


def test_uneven_shardings_end_together(told: Told) -> None:
    """A rank that took another number of steps would hang here."""
    are_equal(told.steps, told.shardings)
    assert sum(told.steps[0].values()) > 2 * told.shardings
    assert max(told.steps[0].values()) > 20
    assert sum(told.replaced) > told.shardings


def test_ranks_that_agree_end_together_whatever_each_of_them_has(told: Told) -> None:
    """Here items are lost, others on each rank, and nothing takes their place."""
    are_equal(told.agreed, told.shardings)
    assert sum(told.agreed[0].values()) > told.shardings
