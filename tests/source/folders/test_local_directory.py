from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from spdl.source import SizedIterableWithShuffle
from spdl.source.local_directory import LocalDirectory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "below").mkdir()
    for name in ("c.jpg", "a.jpg", "b.png", "below/d.jpg"):
        (tmp_path / name).touch()
    return tmp_path


def test_sorted_and_matching(folder: Path) -> None:
    assert list(LocalDirectory(folder, "*.jpg")) == [folder / "a.jpg", folder / "c.jpg"]
    everywhere = LocalDirectory(str(folder), "**/*.jpg")
    assert list(everywhere) == [folder / "a.jpg", folder / "below" / "d.jpg", folder / "c.jpg"]
    assert len(everywhere) == 3
    assert everywhere[1] == folder / "below" / "d.jpg"


def test_it_is_listed_once(folder: Path) -> None:
    photos = LocalDirectory(folder, "*.jpg")
    (folder / "new.jpg").touch()
    assert len(list(photos)) == 2
    assert isinstance(photos, SizedIterableWithShuffle)


def test_the_seed_alone_decides_the_order(folder: Path) -> None:
    for number in range(50):
        (folder / f"{number}.jpg").touch()
    photos = LocalDirectory(folder, "*.jpg")
    expected = list(photos)
    random.Random(3).shuffle(expected)
    for seed in (1, 2, 3):
        photos.shuffle(seed)
    assert list(photos) == expected
    photos.shuffle(seed=3)
    assert list(photos) == expected


def test_a_pass_that_has_begun_goes_on_in_its_order(folder: Path) -> None:
    photos = LocalDirectory(folder, "**/*.*")
    before = list(photos)
    items = iter(photos)
    assert next(items) == before[0]
    photos.shuffle(4)
    assert list(items) == before[1:]


@pytest.mark.parametrize(
    ("root", "pattern", "error", "message"),
    [
        ("nowhere", "*", FileNotFoundError, "there is nothing at '"),
        ("a.jpg", "*", NotADirectoryError, "a.jpg' is not one"),
        ("", "", ValueError, "`pattern` must be a relative pattern such as '**/*.jpg', got ''"),
        ("", "/*.jpg", ValueError, "`pattern` must be a relative pattern such as '**/*.jpg', got '/*.jpg'"),
        ("", None, TypeError, "`pattern` must be a str, got None"),
    ],
)
def test_mistakes(folder: Path, root: str, pattern: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        LocalDirectory(folder / root, pattern)
    assert message in str(caught.value)


def test_a_root_that_is_no_path() -> None:
    with pytest.raises(TypeError, match=r"`root` must be a path \(str or os.PathLike\), got 5"):
        LocalDirectory(5, "*")  # type: ignore[arg-type]
