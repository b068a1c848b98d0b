"""The rank of this process: given, asked of torch, or read from the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from spdl.source import EpochSampler

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def test_alone() -> None:
    sampler = EpochSampler(3, shuffle=False)
    assert (sampler.rank, sampler.world_size) == (0, 1)
    assert list(sampler) == [0, 1, 2]


def test_the_environment_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    sampler = EpochSampler(6, shuffle=False)
    assert (sampler.rank, sampler.world_size) == (1, 3)
    assert list(sampler) == [1, 4]
    # What is given counts.
    assert list(EpochSampler(6, shuffle=False, rank=0, world_size=2)) == [0, 2, 4]


@pytest.mark.parametrize(
    ("rank", "world_size", "message"),
    [
        ("3", "3", "got '3' and '3'"),
        ("-1", "3", "got '-1' and '3'"),
        ("", "3", "got '' and '3'"),
        ("0", "two", "got '0' and 'two'"),
        ("0", "0", "got '0' and '0'"),
        ("0", None, "RANK is set and WORLD_SIZE is not"),
        (None, "2", "WORLD_SIZE is set and RANK is not"),
    ],
)
def test_a_senseless_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, rank: str | None, world_size: str | None, message: str
) -> None:
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        EpochSampler(10)


PROGRAM = """
import sys
from spdl.source import EpochSampler
assert "torch" not in sys.modules
early = EpochSampler(6, shuffle=False)
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
assert list(early) == [0, 1, 2, 3, 4, 5]
dist.destroy_process_group()

# As if the process were the second of three.
dist.is_initialized = lambda: True
dist.get_rank = lambda: 1
dist.get_world_size = lambda: 3
late = EpochSampler(6, shuffle=False)
print(late.rank, late.world_size, list(late))
try:
    list(early)
except RuntimeError as error:
    print(error)
"""


def test_torch_is_asked_once_it_is_initialised(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    environment = {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "store")]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, error = done.stdout.splitlines()
    assert found == "1 3 [1, 4]"
    assert error == (
        "This sampler was made for rank 0 of 1, and the process is now rank 1 of 3: make it after "
        "torch.distributed.init_process_group(), or pass `rank` and `world_size`."
    )
