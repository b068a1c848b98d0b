import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from tests.cli.conftest import NUM_PHOTOS

from spdl.cli import main
from spdl.cli._demo.image_folder import IMAGE_SUFFIXES, list_images
from spdl.io import load_image


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
        (empty, "{} is empty: give a folder with images (recognised by their names: "),
        (empty_below, "{} is empty: give a folder with images (recognised by their names: "),
        (without_images, "{} holds 2 files and no image: give a folder with images (recognised by their names: "),
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


def test_links_are_followed_but_not_in_circles(photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "photos").symlink_to(photos)
    (folder / "again").symlink_to(photos)
    (folder / "circle").symlink_to(folder)
    (folder / "nowhere.jpg").symlink_to(tmp_path / "nowhere")
    os.mkfifo(folder / "pipe.jpg")
    figures = tmp_path / "figures.json"
    assert main(["bench", "images", str(folder), "--no-peers", "--seconds", "0.2", "--json", str(figures)]) == 0
    outcome = json.loads(figures.read_text())
    assert outcome["job"]["files"] == NUM_PHOTOS + 1
    assert list(outcome["live_run"]["failures"]) == [str(folder / "nowhere.jpg")]


def test_names_that_are_no_text_or_steer_the_terminal(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a\nb"
    folder.mkdir()
    photo = next(photos.glob("*.jpg")).read_bytes()
    for name in ("caf\udce9.jpg", "\x1b[31m.jpg", "line\nend.jpg", "http:.jpg", "%d.jpg", "[bold].jpg"):
        (folder / name).write_bytes(photo)
        (folder / f"spoilt {name}").write_bytes(b"not an image")
    figures = tmp_path / "figures.json"
    assert main(["bench", "images", str(folder), "--no-peers", "--seconds", "0.2", "--json", str(figures)]) == 0
    outcome = json.loads(figures.read_text())
    assert len(outcome["live_run"]["failures"]) == 6
    assert outcome["live_run"]["images"] >= 6
    output = capsys.readouterr().out
    assert all(character.isprintable() for character in output.replace("\n", ""))
    assert "a\\nb/spoilt [bold].jpg: " in output


@pytest.mark.parametrize("suffix", sorted(IMAGE_SUFFIXES))
def test_what_counts_as_an_image_can_be_loaded(suffix: str, tmp_path: Path) -> None:
    photo = tmp_path / f"photo{suffix}"
    Image.new("L" if suffix == ".pgm" else "RGB", (40, 30), 200).save(photo)
    assert list_images(tmp_path) == [str(photo)]
    assert load_image(photo).shape == (30, 40, 3)
