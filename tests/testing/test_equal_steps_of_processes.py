"""Ranks that wait for each other in every step end after the same one, with corrupt files on one rank only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

RANKS = 5
SHARDINGS = 1000


def run_ranks(program: str, folder: Path, shardings: int) -> tuple[list[dict[str, int]], list[int]]:
    """Run a program as five ranks. Return what each of them prints: the steps of each sharding, and a number."""
    script = Path(__file__).with_name(program)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder), str(rank), str(RANKS), str(shardings)],
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
    told = [json.loads(output) for output, _ in ended]
    return [steps for steps, _ in told], [number for _, number in told]


@pytest.mark.timeout(300)
def test_a_thousand_uneven_shardings_end_together(tmp_path: Path) -> None:
    """Five processes live through all shardings; a rank that took another number of steps would hang here."""
    steps, replaced = run_ranks("gloo_rank.py", tmp_path, SHARDINGS)
    # A process counts the shardings that it took part in: the first two ranks, all of them.
    assert steps[0] == steps[1]
    assert len(steps[0]) == SHARDINGS
    for of_rank in steps[2:]:
        assert 100 < len(of_rank) < SHARDINGS
        assert of_rank.items() <= steps[0].items()
    assert sum(steps[0].values()) > 2 * SHARDINGS
    assert max(steps[0].values()) > 20
    assert sum(replaced) > SHARDINGS


@pytest.mark.timeout(300)
def test_ranks_that_agree_end_together_whatever_each_of_them_has(tmp_path: Path) -> None:
    """Here items are lost, others on each rank, and nothing takes their place."""
    steps, _ = run_ranks("gloo_stop_rank.py", tmp_path, SHARDINGS)
    assert steps[0] == steps[1]
    assert len(steps[0]) == SHARDINGS
    for of_rank in steps[2:]:
        assert 100 < len(of_rank) < SHARDINGS
        assert of_rank.items() <= steps[0].items()
    assert sum(steps[0].values()) > SHARDINGS
