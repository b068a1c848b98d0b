import io
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin
from tests.cli.wheels import Wheelhouse

from spdl.cli import main
from spdl.cli._demo import photos

QUICK = ["demo", "--no-peers", "--seconds", "0.3"]


def picture(seed: int, width: int, height: int) -> bytes:
    coarse = np.random.default_rng(seed).integers(0, 256, (height // 20, width // 20, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).save(file, "png")
    return file.getvalue()


@pytest.fixture
def photo_wheels(wheelhouse: Wheelhouse) -> Wheelhouse:
    wheelhouse.add(
        "scikit-image",
        "99.0",
        {"skimage/data/chelsea.png": picture(1, 440, 300), "skimage/data/astronaut.png": picture(2, 512, 512)},
    )
    wheelhouse.add("scikit-learn", "99.0", {"sklearn/datasets/images/china.jpg": picture(3, 640, 420)})
    return wheelhouse


def identities(folder: Path) -> dict[str, tuple[int, int]]:
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in folder.iterdir()}


@pytest.mark.usefixtures("photo_wheels")
def test_the_demo_makes_its_photos_once(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(QUICK) == 0
    first = capsys.readouterr().out.splitlines()
    assert "fetching photos out of scikit-image and scikit-learn (once, about 25 MB)" in first
    assert "cutting 512 photos: 256 of 512" in first

    folder = cache / "demo-photos-1"
    files = sorted(folder.glob("*.jpg"))
    assert len(files) == 512
    pictures = []
    for file in files[:9]:
        with Image.open(file) as image:
            assert isinstance(image, JpegImagePlugin.JpegImageFile)
            assert (image.size, image.mode) == ((500, 375), "RGB")
            assert JpegImagePlugin.get_sampling(image) == 2  # 4:2:0
            pictures.append(np.asarray(image, dtype=np.int16))
    for one, other in itertools.combinations(pictures, 2):
        assert np.abs(one - other).mean() > 3

    before = identities(folder)
    monkeypatch.delenv("PIP_FIND_LINKS")  # Nothing can be fetched any more, and need not be.
    assert main(QUICK) == 0
    assert "fetching" not in capsys.readouterr().out
    assert identities(folder) == before


def remove_one(folder: Path) -> None:
    (folder / "photo-010.jpg").unlink()


def cut_one_short(folder: Path) -> None:
    file = folder / "photo-010.jpg"
    file.write_bytes(file.read_bytes()[:-50])


def remove_the_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def garble_the_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("[1, 2")


def replace_the_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("[]")


@pytest.mark.usefixtures("photo_wheels")
@pytest.mark.parametrize(
    "damage", [remove_one, cut_one_short, remove_the_manifest, garble_the_manifest, replace_the_manifest]
)
def test_a_damaged_folder_is_mended(
    damage: Callable[[Path], None], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All 512 would take most of the time.
    monkeypatch.setattr(photos, "NUM_PHOTOS", 32)
    assert main(QUICK) == 0
    folder = cache / "demo-photos-1"
    contents = {file.name: file.read_bytes() for file in folder.iterdir()}
    damage(folder)
    assert main(QUICK) == 0
    # The same photos, byte by byte, and nothing left over.
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == contents
    assert {path.name for path in cache.iterdir()} == {"demo-photos-1", "demo-photos-1.lock"}


def test_no_index(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(QUICK) == 1
    error = capsys.readouterr().err
    assert error.startswith("spdl: the demo's photos cannot be fetched with pip: No matching distribution found for ")
    assert error.endswith(" With images of your own: spdl bench images DIR.\n")
    assert [path.name for path in cache.iterdir()] == ["demo-photos-1.lock"]


def test_wheels_without_the_photos(wheelhouse: Wheelhouse, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheelhouse.add("scikit-image", "99.0", {"skimage/__init__.py": b""})
    wheelhouse.add("scikit-learn", "99.0", {"sklearn/__init__.py": b""})
    assert main(QUICK) == 1
    assert "no longer ship the photos the demo knows" in capsys.readouterr().err
    assert [path.name for path in cache.iterdir()] == ["demo-photos-1.lock"]
