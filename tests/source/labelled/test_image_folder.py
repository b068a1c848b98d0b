"""Folders of images have the classes, numbers and order that torchvision's documentation describes."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdl.source import ImageFolder, ImageSample

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def by_torchvisions_rules(root: str) -> tuple[list[str], list[tuple[str, int]]]:
    """Classes are the folders in sorted order; files come by the paths of their folders, then by their names."""
    classes = sorted(entry.name for entry in Path(root).iterdir() if entry.is_dir())
    samples = []
    for number, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):  # noqa: PTH118
            samples += [(f"{folder}/{file}", number) for file in sorted(files) if file.lower().endswith(EXTENSIONS)]
    return classes, samples


MAKE: Any = ImageFolder  # Without its types, for mistakes.


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


NAMES = st.sampled_from(["a", "B", "a-b", "a.b", ".h", "b", "ä", "Z9", "__x"])
FILES = st.sampled_from(
    [
        "1.jpg",
        "2.JPEG",
        "x.PNG",
        ".h.jpg",
        "t.txt",
        "noext",
        "a.webp",
        "b.TIFF",
        "c.gif",
        "10.jpg",
        "é.bmp",
        "x.jpg.txt",
    ]
)
PATHS = st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=4).map("/".join), FILES).map("/".join), min_size=1)


@settings(max_examples=100)
@given(paths=PATHS)
def test_any_folder_has_torchvisions_classes_and_order(paths: list[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        touch(Path(root), *paths)
        classes, samples = by_torchvisions_rules(root)
        folder = ImageFolder(root, allow_empty=True)
        assert folder.classes == classes
        assert folder.class_to_idx == {name: number for number, name in enumerate(classes)}
        assert folder.samples == samples
        assert folder.targets == [label for _, label in samples]
        assert [(each.path, each.label) for each in folder] == samples
        if {label for _, label in samples} != set(range(len(classes))):
            with pytest.raises(FileNotFoundError, match="allow_empty"):
                ImageFolder(root)


def test_it_is_a_sequence_of_records(tmp_path: Path) -> None:
    folder = ImageFolder(touch(tmp_path, "cat/1.jpg", "cat/2.jpg", "dog/deep/er/1.png"))
    assert len(folder) == 3
    path = str(tmp_path / "dog/deep/er/1.png")
    assert folder[2] == folder[-1] == ImageSample(image=path, label=1, path=path, index=2)
    assert [sample.index for sample in folder[::-2]] == [2, 0]
    assert folder[1] in folder
    with pytest.raises(IndexError):
        folder[3]
    assert repr(folder) == f"ImageFolder({str(tmp_path)!r}): 3 images of 2 classes"
    assert pickle.loads(pickle.dumps(folder))[2] == folder[2]  # noqa: S301 - our own.


def test_hidden_names_can_be_left_out(tmp_path: Path) -> None:
    touch(tmp_path, ".ipynb_checkpoints/1.jpg", "cat/._1.jpg", "cat/1.jpg", "cat/.cache/2.jpg")
    assert ImageFolder(tmp_path).classes == [".ipynb_checkpoints", "cat"]
    folder = ImageFolder(tmp_path, hidden=False)
    assert (folder.classes, [Path(path).name for path, _ in folder.samples]) == (["cat"], ["1.jpg"])


def test_extensions_and_functions_choose_files(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.jpg", "cat/2.GIF", "cat/3.jpg")
    assert [Path(path).name for path, _ in ImageFolder(tmp_path, extensions=".gif").samples] == ["2.GIF"]
    assert len(ImageFolder(tmp_path, extensions=[".Gif", ".jpg"])) == 3
    odd = ImageFolder(tmp_path, is_valid_file=lambda path: path.endswith(("1.jpg", "3.jpg")))
    assert [Path(path).name for path, _ in odd.samples] == ["1.jpg", "3.jpg"]


def test_numbers_can_be_given(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.jpg", "dog/1.jpg", "eel/1.jpg")
    folder = ImageFolder(tmp_path, class_to_idx={"eel": 0, "cat": 7})
    assert [(Path(path).parent.name, label) for path, label in folder.samples] == [("cat", 7), ("eel", 0)]
    with pytest.raises(FileNotFoundError, match="'yak'"):
        ImageFolder(tmp_path, class_to_idx={"yak": 0})


def test_links_are_followed_and_circles_are_errors(tmp_path: Path) -> None:
    touch(tmp_path / "real", "deep/1.jpg")
    root = touch(tmp_path / "root", "cat/1.jpg")
    (root / "linked").symlink_to(tmp_path / "real")
    # The same folder twice is no circle.
    (root / "cat" / "again").symlink_to(tmp_path / "real")
    assert [label for _, label in ImageFolder(root).samples] == [0, 0, 1]
    (root / "cat" / "around").symlink_to(root)
    with pytest.raises(ValueError, match=r"cat/around/cat.*is a link to a folder around it|around.*is a link"):
        ImageFolder(root)


def test_names_that_are_no_utf8_keep_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    Path(os.fsdecode(bytes(tmp_path) + b"/cat/\xff.jpg")).touch()
    folder = ImageFolder(tmp_path)
    assert os.fsencode(folder[0].path).endswith(b"\xff.jpg")
    assert folder.fingerprint()


def test_the_fingerprint_is_that_of_the_images_wherever_they_are(tmp_path: Path) -> None:
    one = ImageFolder(touch(tmp_path / "one", "cat/1.jpg", "dog/1.jpg"))
    assert one.fingerprint() == ImageFolder(touch(tmp_path / "two", "cat/1.jpg", "dog/1.jpg")).fingerprint()
    others = (["cat/1.jpg", "dog/2.jpg"], ["cat/1.jpg", "eel/1.jpg"], ["cat/1.jpg", "dog/1.jpg", "dog/2.jpg"])
    prints = {ImageFolder(touch(tmp_path / f"other{i}", *names)).fingerprint() for i, names in enumerate(others)}
    assert len(prints | {one.fingerprint()}) == 4


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda root: MAKE(root / "missing"), FileNotFoundError, "there is nothing at"),
        (lambda root: MAKE(root / "cat" / "1.jpg"), NotADirectoryError, "is not one"),
        (lambda root: MAKE(root / "empty"), FileNotFoundError, "one for each class.*pass a list of their paths"),
        (ImageFolder, FileNotFoundError, "classes 'empty'"),
        (lambda root: MAKE(3), TypeError, "`root`"),
        (lambda root: MAKE(root, extensions=[]), ValueError, "`extensions`"),
        (lambda root: MAKE(root, extensions=[3]), TypeError, "`extensions`"),
        (lambda root: MAKE(root, extensions=3), TypeError, "`extensions`"),
        (lambda root: MAKE(root, extensions=".jpg", is_valid_file=bool), ValueError, "`is_valid_file`"),
        (lambda root: MAKE(root, is_valid_file=3), TypeError, "`is_valid_file`"),
        (lambda root: MAKE(root, allow_empty="no"), TypeError, "`allow_empty`"),
        (lambda root: MAKE(root, class_to_idx=[3]), TypeError, "`class_to_idx`"),
        (lambda root: MAKE(root, class_to_idx={}), ValueError, "`class_to_idx`"),
        (lambda root: MAKE(root, class_to_idx={"cat": "0"}), TypeError, "`class_to_idx`"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, make: Any, error: type[Exception], message: str) -> None:
    touch(tmp_path, "cat/1.jpg")
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=message):
        make(tmp_path)
