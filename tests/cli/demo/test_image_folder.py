import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from tests.cli.conftest import NUM_PHOTOS
from tests.cli.running import run

from spdl.cli import main

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)


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


def test_what_counts_as_an_image_can_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = empty(tmp_path)
    assert main(["bench", "images", str(folder)]) == 2
    known = re.search(r"recognised by their names: ([a-z0-9 ]+)\)", capsys.readouterr().err)
    assert known is not None
    suffixes = known[1].split()
    assert {"jpg", "jpeg", "png", "webp", "avif", "gif", "tiff"} <= set(suffixes)
    for suffix in suffixes:
        photo = Image.new("L" if suffix == "pgm" else "RGB", (40, 30), 200)
        photo.save(folder / f"photo.{suffix.upper() if suffix == 'png' else suffix}")
    figures = tmp_path / "figures.json"
    # A pass is one batch.
    options = ["--no-peers", "--seconds", "0.1", "--batch-size", str(len(suffixes)), "--json", str(figures)]
    assert main(["bench", "images", str(folder), *options]) == 0
    outcome = json.loads(figures.read_text())
    assert outcome["job"]["files"] == len(suffixes)
    assert outcome["live_run"]["failures"] == {}


def test_a_process_that_may_use_one_core_gets_one_thread(photos: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = run(
        *("bench", "images", photos, "--no-peers", "--seconds", "0.1", "--json", figures),
        before="import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])",
    )
    assert (done.returncode, done.stderr) == (0, "")
    outcome = json.loads(figures.read_text())
    assert (outcome["provenance"]["cores"], outcome["live_run"]["workers"]) == (1, 1)
