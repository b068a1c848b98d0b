from collections.abc import Callable
from pathlib import Path

import pytest

from spdl.cli import main


def missing(place: Path) -> Path:
    return place / "missing"


def a_file(place: Path) -> Path:
    (place / "photo.jpg").write_bytes(b"")
    return place / "photo.jpg"


def empty(place: Path) -> Path:
    (place / "empty").mkdir()
    return place / "empty"


def empty_below(place: Path) -> Path:
    (place / "outer" / "inner").mkdir(parents=True)
    return place / "outer"


def without_images(place: Path) -> Path:
    (place / "texts").mkdir()
    (place / "texts" / "one.txt").write_text("one")
    (place / "texts" / "jpg").write_text("a name, not a suffix")
    return place / "texts"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (missing, "{} does not exist: give a folder that holds images, or run `spdl demo`."),
        (a_file, "{} is not a folder: give the folder that holds the images."),
        (empty, "{} is empty: give a folder with images (told by their names: "),
        (empty_below, "{} is empty: give a folder with images (told by their names: "),
        (without_images, "{} holds 2 files and no image: give a folder with images (told by their names: "),
    ],
)
def test_a_folder_without_images(
    make: Callable[[Path], Path], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make(tmp_path)
    assert main(["bench", "images", str(folder)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"spdl: {complaint.format(folder)}")
    assert output.err.count("\n") == 1
