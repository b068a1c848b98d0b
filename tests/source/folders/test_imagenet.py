from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spdl.source import SizedIterableWithShuffle
from spdl.source.imagenet import ImageNet, get_mappings, parse_wnid


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make(
        tmp_path,
        "train/n01443537/n01443537_2.JPEG",
        "train/n01440764/n01440764_10026.JPEG",
        "train/n01440764/n01440764_1.JPEG",
        "train/n01440764/.listing",
        "val/n15075141/ILSVRC2012_val_00000001.JPEG",
        "val/README",
    )
    return tmp_path


def test_paths_with_their_classes(root: Path) -> None:
    train = ImageNet(root, "train")
    expected = [
        (root / "train/n01440764/n01440764_1.JPEG", 0),
        (root / "train/n01440764/n01440764_10026.JPEG", 0),
        (root / "train/n01443537/n01443537_2.JPEG", 1),
    ]
    assert list(train) == expected
    assert [train[index] for index in range(len(train))] == expected
    assert isinstance(train, SizedIterableWithShuffle)
    assert list(ImageNet(str(root))) == [(root / "val/n15075141/ILSVRC2012_val_00000001.JPEG", 999)]


def test_the_seed_alone_decides_the_order(root: Path) -> None:
    make(root, *(f"train/n01443537/{number}.JPEG" for number in range(40)))
    train = ImageNet(root, "train")
    before = list(train)
    begun = iter(train)
    train.shuffle(1)
    first = list(train)
    assert sorted(first) == before != first
    assert list(begun) == before
    train.shuffle(2)
    assert list(train) != first
    train.shuffle(seed=1)
    assert list(train) == first


def test_the_classes() -> None:
    mappings = get_mappings()
    assert list(mappings.values()) == list(range(1000))
    assert list(mappings) == sorted(mappings)
    # From torchvision's and Keras' tables: tench, goldfish, great grey owl, tabby cat, toilet tissue.
    known = {"n01440764": 0, "n01443537": 1, "n01622779": 24, "n02123045": 281, "n15075141": 999}
    assert {wnid: mappings[wnid] for wnid in known} == known
    mappings.clear()
    assert len(get_mappings()) == 1000


@pytest.mark.parametrize("text", ["n02123045", "a/n02123045/n01440764_1.JPEG", "xn021230450"])
def test_the_first_id_in_a_text(text: str) -> None:
    assert parse_wnid(text) == "n02123045"


@pytest.mark.parametrize("text", ["", "n0212304", "N02123045"])
def test_no_id_in_a_text(text: str) -> None:
    with pytest.raises(ValueError, match="`s` must be a text with a WordNet ID in it"):
        parse_wnid(text)


def test_no_text() -> None:
    with pytest.raises(TypeError, match="`s` must be a str"):
        parse_wnid(Path("n02123045"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "args", "error", "message"),
    [
        (["train/n01440764/a.JPEG"], ["test"], ValueError, "`split` must be 'train' or 'val', got 'test'"),
        (["train/n01440764/a.JPEG"], ["val"], FileNotFoundError, "The folder '"),
        (["train/n01440764/a.txt"], ["train"], FileNotFoundError, "No photos"),
        (["train/cats/a.JPEG"], ["train"], ValueError, "cats' is not a class of ImageNet-1k"),
        (["train/n99999999/a.JPEG"], ["train"], ValueError, "n99999999' is not a class of ImageNet-1k"),
        (["val/a.JPEG", "val/n01440764/a.JPEG"], ["val"], ValueError, "itself holds photos such as 'a.JPEG'"),
    ],
)
def test_folders_of_another_layout(
    tmp_path: Path, names: list[str], args: list[Any], error: type[Exception], message: str
) -> None:
    make(tmp_path, *names)
    with pytest.raises(error) as caught:
        ImageNet(tmp_path, *args)
    assert message in str(caught.value)
