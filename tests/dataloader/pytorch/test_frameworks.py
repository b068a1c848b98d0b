"""Libraries that train take our loader for PyTorch's: they shard it, save it and finish, on two ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

ITEMS, RANKS = 53, 2

pytestmark = pytest.mark.timeout(300)


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}"]


def _run(program: str, *arguments: object, launch: list[str] = TORCHRUN) -> list[dict[str, Any]]:
    """Run a program on two ranks, and return what each printed."""
    file = Path(__file__).with_name(f"program_{program}.py")
    done = subprocess.run(
        [*launch, str(file), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"rank"')]
    assert sorted(it["rank"] for it in found) == list(range(RANKS))
    return found


def _all(epochs: list[list[list[int]]]) -> list[int]:
    return sorted(chain.from_iterable(chain.from_iterable(epochs)))


def test_lightnings_trainer_shards_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    ranks = _run("lightning", tmp_path)
    for it in ranks:
        assert (it["class"], it["workers"], it["sampler"]) == ("PyTorchDataLoader", "thread", "DistributedSampler")
        # 27 of 53 items for each rank: 7 batches in each of 3 epochs.
        assert len(it["whole"]) == 21
        assert it["rest"] == it["whole"][10:]
    for epoch in range(3):
        items = [number for it in ranks for of_epoch, batch in it["whole"] if of_epoch == epoch for number in batch]
        assert set(items) == set(range(ITEMS))
        assert len(items) == ITEMS + 1


def test_accelerates_prepare_shards_and_resumes() -> None:
    pytest.importorskip("accelerate")
    ranks = _run("accelerate")
    for it in ranks:
        # Threads yield what the processes yield that Accelerate starts.
        assert it["ours"] == it["theirs"]
        assert it["workers"] == "thread"
        assert it["again"] == it["ours"]
        assert it["skipped"] == 4
    for epoch in range(2):
        assert set(_all([it["ours"][epoch] for it in ranks])) == set(range(ITEMS))


@pytest.mark.parametrize("launch", [TORCHRUN, [sys.executable]], ids=["torchrun", "Trainer"])
def test_lightnings_trainer_takes_the_ready_made_loaders(tmp_path: Path, launch: list[str]) -> None:
    pytest.importorskip("lightning")
    ranks = _run("lightning_ready_made", tmp_path, launch=launch)
    for kind, name in (("images", "ImageLoader"), ("items", "DataLoader")):
        for it in ranks:
            assert it[kind]["class"] == name
            assert len(it[kind]["whole"]) == 21
            assert it[kind]["rest"] == it[kind]["whole"][10:]
        orders = []
        for epoch in range(3):
            batches = [batch for it in ranks for of_epoch, batch in it[kind]["whole"] if of_epoch == epoch]
            # The loaders share an epoch by themselves: each item comes once, the last step's, too.
            assert sorted(chain.from_iterable(batches)) == list(range(ITEMS))
            orders.append(batches)
        assert orders[0] != orders[1] != orders[2]


def test_accelerate_leaves_the_ready_made_loaders_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    ranks = _run("accelerate_ready_made", tmp_path)
    for kind, name in (("images", "ImageLoader"), ("items", "DataLoader")):
        for it in ranks:
            assert it[kind]["same"]
            assert it[kind]["again"] == it[kind]["whole"]
            assert it[kind]["told"].startswith(f"{name} has no attribute ")
            assert "load_state_dict" in it[kind]["told"]
        for epoch in range(2):
            assert _all([it[kind]["whole"][epoch] for it in ranks]) == list(range(ITEMS))
