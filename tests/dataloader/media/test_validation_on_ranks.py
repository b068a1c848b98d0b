"""Which samples come how often where several ranks share them, as `docs/how_do_i/validate_on_several_ranks.md` says."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.io.av.media import clip

from spdl.dataloader import ArrayLoader, AudioLoader, ClipLoader, ImageLoader
from spdl.io import LoadError

# Tests of how many a rank gets may have more ranks than samples.
pytestmark = pytest.mark.filterwarnings("ignore:Rank .* gets none of the")

PROGRAM = Path(__file__).with_name("program_validation.py")


def run_on_ranks(world_size: int, cases: list[tuple[int, int]], folder: Path) -> dict[tuple[int, int], Any]:
    """Run the program under torchrun, and return for each case what the ranks have written."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        environment.pop(name, None)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"]
    names = {case: "{}x{}".format(*case) for case in cases}
    command = [*launch, str(PROGRAM), str(folder), *names.values()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world_size)]
    return {case: [rank[name] for rank in ranks] for case, name in names.items()}


def steps(ranks: list[Any], name: str) -> set[int]:
    return {len(rank[name]) for rank in ranks}


def items(ranks: list[Any], name: str) -> list[int]:
    return sorted(chain.from_iterable(chain.from_iterable(rank[name]) for rank in ranks))


# Three processes import PyTorch, possibly on a busy machine.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("world_size", [2, 3])
def test_what_each_loader_gives_the_ranks_of_torchrun(world_size: int, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    chance = np.random.default_rng(world_size)
    # Fewer samples than ranks, one more than fills all batches, and some.
    cases = [(world_size - 1, 2), (2 * world_size + 1, 2), (world_size, 3)]
    cases += [(int(chance.integers(1, 41)), int(chance.integers(1, 7))) for _ in range(12)]
    for (count, size), ranks in run_on_ranks(world_size, cases, tmp_path).items():
        everything = list(range(count))
        left = count % (world_size * size)
        repeats = world_size - left if 0 < left < world_size else 0

        for name in ("media, uneven", "media, uneven, shuffled", "items, uneven", "torch, uneven"):
            assert items(ranks, name) == everything
            assert steps(ranks, name) == ({count // (world_size * size)} if repeats else set()) | {
                -(-count // (world_size * size))
            }
        for name in ("round, in order", "round, random"):
            assert items(ranks, name) == everything
        assert sorted(chain.from_iterable(rank["slice"] for rank in ranks)) == everything

        for name in ("media", "media, shuffled", "items"):
            found = items(ranks, name)
            assert sorted(set(found)) == everything
            assert len(found) == count + repeats
            assert steps(ranks, name) == {-(-count // (world_size * size))}
            # Last batches differ by one sample at most.
            assert max(last := [len(rank[name][-1]) for rank in ranks]) - min(last) <= 1
        assert sum(rank["repeats"] for rank in ranks) == repeats

        for name in ("items, all", "torch, all"):
            assert items(ranks, name) == sorted(everything * world_size)
        padded = [number % count for number in range(count + -count % world_size)]
        assert items(ranks, "torch, its sampler") == sorted(padded)
        full = count - count % world_size
        assert sorted(chain.from_iterable(rank["shard"] for rank in ranks)) == everything[:full]
        padded = sorted(chain.from_iterable(rank["shard, padded"] for rank in ranks))
        assert sorted(set(padded)) == everything
        assert len(padded) == count + -count % world_size
        assert set(Counter(padded) - Counter(everything)) <= set(everything[full:])

        for rank in ranks:
            assert rank["by index"] == count
            assert rank["at the end"] == [count, sum(everything)]


def make(count: int, batch_size: int, rank: int, world_size: int, **options: Any) -> ArrayLoader:
    rows = [{"file": {"image": np.full(2, number)}, "label": number} for number in range(count)]
    place: dict[str, Any] = {"rank": rank, "world_size": world_size}
    return ArrayLoader(rows, batch_size, output="numpy", num_threads=1, even_batches=False, **place, **options)


def numbers(batches: Any) -> list[int]:
    return [int(number) for batch in batches for number in batch.label]


@settings(max_examples=60, deadline=None)
@example(count=1, before=(5, 4), taken=0, after=(2, 1))
@given(
    count=st.integers(1, 30),
    before=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    taken=st.integers(0, 4),
    after=st.tuples(st.integers(1, 4), st.integers(1, 5)),
)
def test_without_even_batches_each_sample_comes_once_also_after_a_cut(
    count: int, before: tuple[int, int], taken: int, after: tuple[int, int]
) -> None:
    world_size, batch_size = before
    loaders = [make(count, batch_size, rank, world_size, shuffle=True) for rank in range(world_size)]
    whole = [list(loader) for loader in loaders]
    assert sorted(chain.from_iterable(map(numbers, whole))) == list(range(count))
    assert [len(batches) for batches in whole] == [len(loader) for loader in loaders]
    assert max(map(len, whole)) - min(map(len, whole)) <= 1
    assert all(loader.epoch == 1 for loader in loaders)

    # All ranks take some steps that all of them have. What is left comes once, on any ranks.
    loaders = [make(count, batch_size, rank, world_size, shuffle=True) for rank in range(world_size)]
    taken = min(taken, *map(len, loaders))
    received = []
    for loader in loaders:
        iterator = iter(loader)
        received += numbers(itertools.islice(iterator, taken))
        iterator.close()  # type: ignore[attr-defined]
    states = [loader.state_dict() for loader in loaders]
    assert all(state == states[0] for state in states)
    for rank in range(after[0]):
        resumed = make(count, after[1], rank, after[0], shuffle=True)
        resumed.load_state_dict(states[-1])
        received += numbers(resumed)
    assert sorted(received) == list(range(count))


def test_a_rank_without_samples_has_epochs_as_the_others_have() -> None:
    loader = make(2, 4, 0, 3)
    assert len(loader) == 0
    for epoch in range(3):
        assert loader.epoch == epoch
        assert list(loader) == []
    resumed = make(2, 4, 0, 3)
    resumed.load_state_dict(loader.state_dict())
    assert resumed.epoch == 3
    assert list(resumed) == []


def test_what_drop_last_leaves_out_is_the_same() -> None:
    assert [numbers(make(11, 2, rank, 2, drop_last=True)) for rank in range(2)] == [[0, 1, 4, 5], [2, 3, 6, 7]]
    with pytest.raises(ValueError, match="would leave out everything"):
        make(3, 2, 0, 2, drop_last=True)


def test_broken_samples_may_leave_a_rank_fewer_steps() -> None:
    def loader(rank: int, **options: Any) -> ArrayLoader:
        files = [b"no file" if number in (0, 1) else {"image": np.full(2, number)} for number in range(8)]
        samples = [{"file": file, "label": number} for number, file in enumerate(files)]
        place: dict[str, Any] = {"rank": rank, "world_size": 2}
        return ArrayLoader(samples, 2, output="numpy", on_error="skip", num_threads=1, **place, **options)

    assert [numbers(loader(rank, even_batches=False)) for rank in range(2)] == [[4, 5], [2, 3, 6, 7]]
    with pytest.raises(LoadError, match="even_batches=False if none waits for another"):
        list(loader(0))


@pytest.mark.parametrize("kind", ["image", "clip", "sound"])
def test_all_media_loaders_can_do_without_repeats(kind: str) -> None:
    def loader(rank: int, **options: Any) -> Any:
        given = {"rank": rank, "world_size": 2, "output": "numpy", "num_threads": 1, **options}
        if kind == "image":
            return ImageLoader([(b"P6 1 1 255 abc", 0)], 1, size=2, **given)
        if kind == "clip":
            return ClipLoader([(clip("h264.mp4"), 0)], 1, num_frames=1, size=16, **given)
        return AudioLoader([(clip("mp3.mp3"), 0)], 1, sample_rate=8000, seconds=0.1, **given)

    assert [len(list(loader(rank))) for rank in range(2)] == [1, 1]
    assert [len(list(loader(rank, even_batches=False))) for rank in range(2)] == [0, 1]
    with pytest.raises(TypeError, match="`even_batches` must be"):
        loader(0, even_batches=2)


def test_image_loader_refuses_the_state_of_another_rank_that_lacks_a_batch() -> None:
    images = [(b"no photo" if index == 0 else b"P5 1 1 255 " + bytes([index]), index) for index in range(5)]

    def start(rank: int) -> ImageLoader:
        options: dict[str, Any] = {"on_error": "skip", "even_batches": False, "output": "numpy", "num_threads": 1}
        return ImageLoader(images, 1, size=1, rank=rank, world_size=2, **options)

    # Rank 0's first batch is missing, so after a batch of each it is a step ahead.
    ranks = [start(rank) for rank in range(2)]
    assert [next(iter(loader)).label.tolist() for loader in ranks] == [[2], [1]]
    states = [json.loads(json.dumps(loader.state_dict())) for loader in ranks]
    with pytest.raises(ValueError, match=r"from rank 0 of 2, which may have had fewer batches.* its own state"):
        start(1).load_state_dict(states[0])
    for rank, rest in enumerate([[], [[3], [4]]]):
        resumed = start(rank)
        resumed.load_state_dict(states[rank])
        assert resumed.state_dict() == states[rank]
        assert [batch.label.tolist() for batch in resumed] == rest
    # At the end of the epoch, others still have a batch. In the next one, it lacks none before its first is missing.
    list(ranks[0])
    with pytest.raises(ValueError, match=r"from rank 0 of 2, which may have had fewer batches"):
        start(1).load_state_dict(ranks[0].state_dict())


def test_the_state_of_a_rank_that_has_ended_before_others() -> None:
    for count, rank in itertools.product(range(5, 9), range(2)):
        steps = [len(list(make(count, 2, each, 2))) for each in range(2)]
        ended = make(count, 2, rank, 2)
        list(ended)
        state = json.loads(json.dumps(ended.state_dict()))
        again = make(count, 2, rank, 2)
        again.load_state_dict(state)
        # It goes on with its next epoch, and so says its state.
        assert json.loads(json.dumps(again.state_dict())) == state
        assert len(list(again)) == steps[rank]
        for other in (make(count, 2, 1 - rank, 2), make(count, 2, 0, 1), make(count, 2, 2, 3)):
            if steps[rank] < max(steps):
                with pytest.raises(ValueError, match=rf"from rank {rank} of 2, .* fewer batches than others"):
                    other.load_state_dict(state)
            else:
                other.load_state_dict(state)
                assert (other.state_dict()["epoch"], other.state_dict()["position"]) == (1, 0)
