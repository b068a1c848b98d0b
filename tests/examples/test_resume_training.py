"""A training run on three classes of real photos learns, and one that is cut anywhere learns the very same."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

import resume_training  # noqa: E402 - it needs torch.
from _program.photos import chosen_photos  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

# It takes some seconds, and many times that on a busy machine.
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def photos() -> list[tuple[str, int]]:
    """Return real photos of three classes, a sixth of which is for this test."""
    try:
        listed = chosen_photos(argparse.ArgumentParser(), None)
    except SystemExit:
        pytest.skip("the demo's photos cannot be fetched")
    classes = resume_training.CLASSES
    return [(path, classes.index(label)) for path, label in listed if label in classes][:96]


def test_a_run_that_is_cut_anywhere_has_the_same_losses(photos: list[tuple[str, int]], tmp_path: Path) -> None:
    def train(name: str, stops: set[int], num_threads: int) -> list[float]:
        checkpoint = tmp_path / name
        while True:
            losses: list[float] = resume_training.train(
                photos,
                checkpoint,
                batch_size=10,
                epochs=4,
                num_threads=num_threads,
                after_step=lambda losses: len(losses) not in stops,
            )
            if len(losses) not in stops:
                return losses

    whole = train("whole.pt", set(), 2)
    assert len(whole) == 4 * 9
    # In the middle, twice in a row, at the end of an epoch, and after the first step of one.
    assert train("cut.pt", {1, 4, 5, 9, 18, 19, 35}, 1) == whole
    # There is something to learn, and it is learnt.
    first, last = sum(whole[:4]) / 4, sum(whole[-4:]) / 4
    assert last < 0.7 * first
