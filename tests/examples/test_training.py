"""The training loops of the programs train, and account for their time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import image_classification  # noqa: E402 - they need torch.
import npz_training  # noqa: E402
from _program.photos import list_photos  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# They take a second or two, and many times that on a busy machine.
pytestmark = pytest.mark.timeout(180)


def test_the_loader_gives_normalised_images_with_their_classes(photos: Path) -> None:
    listed = list_photos(photos)
    loader = image_classification.make_loader(listed, batch_size=5, num_threads=2, device=torch.device("cpu"))
    assert len(loader) == 3
    epochs = [list(loader) for _ in range(2)]
    for epoch in epochs:
        assert [images.shape for images, _ in epoch] == [(5, 3, 96, 96)] * 3
        images = torch.cat([images for images, _ in epoch])
        assert images.dtype is torch.float32
        # Test images vary around the middle grey. Mean and deviation are ImageNet's.
        assert -1 < images.mean() < 1
        labels = torch.cat([labels for _, labels in epoch]).tolist()
        assert set(labels) == {0, 1}
    assert not torch.equal(epochs[0][0][0], epochs[1][0][0])


def test_waiting_and_training_are_told_apart() -> None:
    def slow() -> Iterator[tuple[object, object]]:
        for _ in range(3):
            time.sleep(0.05)
            yield torch.rand(2, 3, 32, 32), torch.tensor([0, 1])

    model = image_classification.make_model(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    training = image_classification.train(model, optimizer, slow())
    figures = training.figures()
    assert figures["images"] == 6
    assert figures["data_ms"] >= 50
    assert figures["data_share"] == pytest.approx(figures["data_ms"] / (figures["data_ms"] + figures["step_ms"]))
    assert len(training.step_seconds) == len(training.losses) == 3


def test_training_learns_what_can_be_learnt() -> None:
    torch.manual_seed(0)
    labels = torch.arange(16) % 2
    images = labels.view(-1, 1, 1, 1) + 0.1 * torch.rand(16, 3, 32, 32)
    model = image_classification.make_model(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    training = image_classification.train(model, optimizer, [(images, labels)] * 20)
    assert training.losses[-1] < 0.2 < training.losses[0]
    assert training.correct > 16 * 12


def test_nothing_to_train_on_is_an_error() -> None:
    model = image_classification.make_model(2)
    with pytest.raises(ValueError, match="nothing to train on"):
        image_classification.train(model, torch.optim.SGD(model.parameters(), lr=0.1), [])


@pytest.mark.parametrize("way", npz_training.WAYS)
def test_all_ways_feed_the_same_samples(way: str, tmp_path: Path) -> None:
    npz_training.write_samples(str(tmp_path), number=6, side=32)
    paths = sorted(map(str, tmp_path.glob("*.npz")))
    if way == "NPZ, processes":
        # Without worker processes, as a process with threads should not fork them.
        loader = npz_training.ProcessLoader(
            npz_training.NpzDataset(paths), batch_size=3, collate_fn=npz_training.collate
        )
    else:
        loader = npz_training.WAYS[way](paths, batch_size=3, num_workers=2)
    batches = [batch for batch, _ in zip(loader, range(2), strict=False)]
    found = sorted(image.numpy().tobytes() for images, _ in batches for image in images)
    expected = []
    for path in paths:
        with np.load(path) as data:
            expected.append(data["img"].tobytes())
            assert data["lbl"].max() >= 1
    assert found == sorted(expected)


def test_training_on_the_samples_lowers_the_loss(tmp_path: Path) -> None:
    npz_training.write_samples(str(tmp_path), number=8, side=64)
    paths = sorted(map(str, tmp_path.glob("*.npz")))
    batches = list(npz_training.load_npy_in_threads(paths, batch_size=8, num_workers=2))
    losses = list(npz_training.train(batches * 30))
    assert losses[-1] < losses[0] / 2


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=300))
def test_the_points_of_a_curve_account_for_its_time(durations: list[float]) -> None:
    seconds = list(np.cumsum(durations))
    times, rates = npz_training.curve(seconds)
    share = max(1, len(seconds) // npz_training.POINTS)
    assert len(times) == len(rates) == len(seconds) // share
    assert times == sorted(times)
    # Each point stands for an equal number of batches. Together they account for the time up to the last of them.
    assert sum(share / rate for rate in rates) == pytest.approx(seconds[len(rates) * share - 1])
