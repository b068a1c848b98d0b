"""The loaders of `multi_thread_preprocessing.py` and `migration.py` load the photos that they are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

import migration  # noqa: E402 - they need torch.
import multi_thread_preprocessing as preprocessing  # noqa: E402
from _program.isolated import run_in_process  # noqa: E402
from _program.photos import PhotoDataset, list_photos, write_resized  # noqa: E402
from _program.transforms import Compose, Normalize, PILToTensor, Resize  # noqa: E402

Array = npt.NDArray[np.uint8]

# They take a second or two, and many times that on a busy machine.
pytestmark = pytest.mark.timeout(180)


def pillows(path: str) -> Array:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR))


@pytest.mark.parametrize("experiment", preprocessing.EXPERIMENTS)
@pytest.mark.parametrize(("batch_size", "images"), [(None, 6), (4, 24)])
def test_experiments_load_what_they_are_told(
    experiment: str, batch_size: int | None, images: int, photos: Path
) -> None:
    outcome = run_in_process(
        preprocessing.EXPERIMENTS[experiment],
        root_dir=str(photos),
        split="val",
        num_workers=2,
        max_items=6,
        batch_size=batch_size,
        normalize=batch_size is not None,
    )
    num_images, seconds = outcome.result
    assert num_images == images
    assert seconds > 0


def test_run_dataloader_counts_images_and_stops() -> None:
    batches = [(torch.zeros(5, 3, 2, 2), None)] * 4
    assert preprocessing.run_dataloader(batches, 3)[0] == 15
    assert preprocessing.run_dataloader([(torch.zeros(3, 2, 2), None)] * 4, 9)[0] == 4


def test_the_transfer_is_skipped_where_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert list(preprocessing.make_steps(8)) == ["decode, resize", "+ batch", "+ normalise"]
    assert "skipped: the step with the transfer" in capsys.readouterr().out
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert preprocessing.make_steps(8)["+ transfer"] == {"batch_size": 8, "normalize": True, "transfer": True}


@pytest.mark.parametrize("loader", ["Pipeline, Pillow", "Pipeline, spdl.io"])
def test_pipelines_of_the_migration_give_the_photos_in_order(loader: str, photos: Path) -> None:
    listed = list_photos(photos)
    batches: list[tuple[Any, Any]] = list(migration.LOADERS[loader](listed, length=20, batch_size=8, num_workers=3))
    assert [len(images) for images, _ in batches] == [8, 8, 4]
    expected = [listed[index % len(listed)] for index in range(20)]
    assert [int(label) for _, labels in batches for label in labels] == [label for _, label in expected]
    images = torch.cat([images for images, _ in batches])
    assert images.dtype is torch.uint8
    for image, (path, _) in zip(images, expected, strict=True):
        difference = np.abs(image.permute(1, 2, 0).numpy().astype(int) - pillows(path))
        assert difference.mean() <= 0.5


def test_torchs_loader_of_the_migration_gives_the_photos_in_order(photos: Path) -> None:
    listed = list_photos(photos)
    row = {"photos": listed, "length": 6, "batch_size": 4, "num_workers": 2}
    outcome = run_in_process(migration.measure_row, loader="PyTorch DataLoader", **row)
    assert outcome.result["images"] == 6
    image, label = migration.make_dataset(listed, 20)[17]
    np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), pillows(listed[1][0]))
    assert label == listed[1][1]


def test_pillow_wastes_more_memory_than_frames_and_one_call_wastes_none(photos: Path, tmp_path: Path) -> None:
    paths = write_resized([path for path, _ in list_photos(photos)[:4]], str(tmp_path), (720, 480))
    wasted = {
        way: run_in_process(migration.measure_copies, way=way, paths=paths, batches=3).result["wasted_mb"]
        for way in migration.BATCHES
    }
    pillow, frames, one_call = wasted.values()
    # An image of 720 x 480 is 1.04 MB as RGB, and Pillow needs at least one such copy.
    assert pillow > 4 * 1.04
    # A resized frame is 0.15 MB, and exists before the batch does.
    assert 4 * 0.14 < frames < pillow / 2
    assert one_call < 0.5


def test_photos_are_found_in_any_folder_and_in_imagenets_layout(photos: Path, tmp_path: Path) -> None:
    listed = list_photos(photos)
    assert len(listed) == 16
    assert [(Path(path).parent.name, label) for path, label in listed[::8]] == [("cats", 0), ("dogs", 1)]
    for wnid in ("n01440764", "n01443537"):
        (tmp_path / "val" / wnid).mkdir(parents=True)
        (tmp_path / "val" / wnid / "a.JPEG").write_bytes(Path(listed[0][0]).read_bytes())
    assert [(Path(path).parent.name, label) for path, label in list_photos(tmp_path)] == [
        ("n01440764", 0),
        ("n01443537", 1),
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no photo"):
        list_photos(tmp_path / "empty")


def test_transforms_are_torchvisions() -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(256, size=(30, 40, 3), dtype=np.uint8))
    tensor = Compose([Resize((8, 10)), PILToTensor()])(image)
    expected = np.asarray(image.resize((10, 8), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    np.testing.assert_array_equal(tensor.numpy(), expected)
    mean, std = [0.5, 0.25, 0.1], [0.1, 0.2, 0.4]
    normalised = Normalize(mean, std)(torch.from_numpy(expected.astype(np.float32)).expand(2, -1, -1, -1))
    exact = (expected - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    np.testing.assert_allclose(normalised.numpy(), np.stack([exact, exact]), rtol=1e-5)


def test_a_dataset_repeats_its_photos_and_ends(photos: Path) -> None:
    dataset = PhotoDataset(list_photos(photos), loader=lambda path: path, transform=str.upper, length=20)
    assert len(dataset) == 20
    assert dataset[17] == dataset[1]
    with pytest.raises(IndexError):
        dataset[20]
