"""Fixtures for the tests of the command."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.running import run
from tests.cli.wheels import Wheelhouse

NUM_PHOTOS = 24


def write_photo(file: Path, seed: int) -> None:
    """Write a picture of soft noise. It decodes like a photo, and no two are alike."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize((96, 72), Image.Resampling.BICUBIC).save(file)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    (folder / "deeper" / "still").mkdir(parents=True)
    places = [folder, folder / "deeper", folder / "deeper" / "still"]
    suffixes = [".jpg", ".JPEG", ".png"]
    for index in range(NUM_PHOTOS):
        write_photo(places[index % 3] / f"{index:02d}{suffixes[index % 2]}", index)
    (folder / "notes.txt").write_text("no image")
    return folder


@pytest.fixture(scope="session")
def reported(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a comparison over a folder with an awkward name, and return the place of `report` and `figures.json`."""
    place = tmp_path_factory.mktemp("reported")
    folder = place / "a <b> & c"
    folder.symlink_to(photos)
    options = ["--seconds", "0.3", "--size", "32", "--rounds", "1", "--workers", "1"]
    outputs: list[str | Path] = ["--report", place / "report", "--json", place / "figures.json"]
    # A home folder that cannot be written to. matplotlib must not complain about it.
    environment = os.environ | {"XDG_CACHE_HOME": str(place), "PIP_NO_INDEX": "1", "HOME": "/dev/null"}
    environment.pop("XDG_CONFIG_HOME", None)
    environment.pop("MPLCONFIGDIR", None)
    # In a process of its own, because matplotlib keeps the fonts that it has used open.
    done = run("bench", "images", folder, *options, *outputs, environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return place


@pytest.fixture
def spoil(photos: Path, tmp_path: Path) -> Callable[[int], Path]:
    """Return a function that makes a folder with copies of some photos, and with files only named like photos."""

    def make(num_spoilt: int, num_whole: int = 6) -> Path:
        folder = tmp_path / "spoilt"
        folder.mkdir()
        for file in sorted(photos.rglob("*.jpg"))[:num_whole]:
            (folder / file.name).write_bytes(file.read_bytes())
        for index in range(num_spoilt):
            (folder / f"spoilt-{index}.jpg").write_bytes(os.urandom(2000))
        return folder

    return make


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test an empty cache folder, and a pip that reaches no index."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "cache" / "spdl"


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheelhouse:
    """Return a folder of wheels that takes the place of the index."""
    house = Wheelhouse(tmp_path / "wheelhouse")
    monkeypatch.setenv("PIP_FIND_LINKS", str(house.folder))
    return house


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
