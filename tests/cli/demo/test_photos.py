import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin
from tests.cli.wheels import Wheelhouse

from spdl.cli import main

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

QUICK = ["demo", "--no-peers", "--seconds", "0.3"]


def identities(folder: Path) -> dict[str, tuple[int, int]]:
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in folder.iterdir()}


@pytest.mark.usefixtures("photo_wheels")
def test_the_demo_makes_its_photos_once(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(QUICK) == 0
    first = capsys.readouterr().out.splitlines()
    assert "fetching photos out of scikit-image and scikit-learn (once, about 25 MB)" in first

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


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        ("none", "No matching distribution found for "),
        ("unreachable", "No matching distribution found for "),
        ("no pip", "this Python has no pip (add it with: "),
    ],
)
def test_the_demo_without_an_index_or_pip_says_so_in_one_line(
    index: str, complaint: str, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if index == "unreachable":
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    if index == "no pip":
        monkeypatch.setitem(sys.modules, "pip", None)
    assert main(QUICK) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"spdl: the demo's photos cannot be fetched with pip: {complaint}")
    assert error.endswith(" With your own images: spdl bench images DIR.\n")
    assert error.count("\n") == 1
    assert [path.name for path in cache.iterdir()] == ["demo-photos-1.lock"]


def test_wheels_without_the_photos(wheelhouse: Wheelhouse, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheelhouse.add("scikit-image", "99.0", {"skimage/__init__.py": b""})
    wheelhouse.add("scikit-learn", "99.0", {"sklearn/__init__.py": b""})
    assert main(QUICK) == 1
    assert "no longer ship the photos the demo knows" in capsys.readouterr().err
    assert [path.name for path in cache.iterdir()] == ["demo-photos-1.lock"]
