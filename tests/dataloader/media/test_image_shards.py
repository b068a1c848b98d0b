"""Images in tar archives are read by their index, with labels from where they are."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.images import make_jpeg

from spdl.dataloader import ImageLoader, ImageShards
from spdl.io import FormatError, group_samples, iter_tarfile
from spdl.source import ImageFolder, TarShards
from spdl.testing import assert_resumes_exactly


def write(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Three archives of eleven samples, one of them without any."""
    counts = (4, 0, 7)
    paths = []
    number = 0
    for shard, count in enumerate(counts):
        members: dict[str, bytes] = {"README": b"no sample"}
        for _ in range(count):
            members[f"a/{number:04}.cls"] = b" %d\n" % (number % 3)
            members[f"a/{number:04}.JPG"] = make_jpeg(30, 20, seed=number)
            members[f"a/{number:04}.meta.json"] = json.dumps({"n": number}).encode()
            number += 1
        paths.append(write(tmp_path / f"{shard}.tar", members))
    return paths


def test_samples_are_those_of_webdataset(shards: list[Path]) -> None:
    images = ImageShards(shards)
    expected = [sample for path in shards for sample in group_samples(iter_tarfile(path))]
    assert len(images) == len(expected) == 11
    for index, (sample, other) in enumerate(zip(images, expected, strict=True)):
        assert bytes(sample.image) == bytes(other["jpg"])
        assert (sample.label, sample.index) == (int(bytes(other["cls"])), index)
        assert sample.path.endswith(f".tar/{other['__key__']}.JPG")
    assert images[-1].path == images[10].path
    assert [sample.index for sample in images[3:6]] == [3, 4, 5]
    with pytest.raises(IndexError, match="11 images, got the index 11"):
        images[11]
    assert repr(images) == "ImageShards of TarShards: 11 records in 3 archives"


def test_patterns_are_those_of_tar_shards(shards: list[Path], tmp_path: Path) -> None:
    images = ImageShards(shards)
    ways: list[Any] = [
        f"{tmp_path}/{{0..2}}.tar",
        tmp_path / "{0,1,2}.tar",
        [f"{tmp_path}/0.tar", tmp_path / "{1..2}.tar"],
    ]
    for way in ways:
        same, samples = ImageShards(way), TarShards(way)
        assert same.fingerprint() == images.fingerprint()
        assert [bytes(it.image) for it in same] == [bytes(sample["jpg"]) for sample in samples]
    assert len(ImageShards(str(shards[0]))) == len(ImageShards(shards[0].as_uri())) == 4
    copy = pickle.loads(pickle.dumps(ImageShards(ways[0])))  # noqa: S301 - our own.
    assert bytes(copy[10].image) == bytes(images[10].image)


def test_labels_by_a_function_or_none(shards: list[Path]) -> None:
    images = ImageShards(shards, label=lambda parts: (parts["__key__"], json.loads(bytes(parts["meta.json"]))["n"]))
    assert images[5].label == ("a/0005", 5)
    assert ImageShards(shards, label=None)[5].label is None


def test_folders_are_classes(tmp_path: Path) -> None:
    members = {f"train/{name}/{index}.jpg": make_jpeg(20, 20, seed=index) for index, name in enumerate("cab")}
    one = write(tmp_path / "1.tar", members)
    two = write(tmp_path / "2.tar", {"train/b/x.y.png": b"p", "train/d/1.jpg": b"j"})
    images = ImageShards([one, two], label="folder")
    assert images.classes == ["a", "b", "c", "d"]
    assert [sample.label for sample in images] == [2, 0, 1, 1, 3]


def test_the_image_loader_loads_them(shards: list[Path], tmp_path: Path) -> None:
    images = ImageShards(shards)
    for sample in images:
        path = tmp_path / "folder" / str(sample.label) / f"{sample.index:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sample.image)
    folder = ImageFolder(tmp_path / "folder")
    options: dict[str, Any] = {"size": 16, "output": "numpy"}
    found = {
        (image.tobytes(), int(label))
        for batch in ImageLoader(images, 4, **options)
        for image, label in zip(*batch, strict=True)
    }
    expected = {
        (image.tobytes(), int(label))
        for batch in ImageLoader(folder, 4, **options)
        for image, label in zip(*batch, strict=True)
    }
    assert found == expected
    assert len(found) == 11

    def make(batch_size: int) -> ImageLoader:
        return ImageLoader(ImageShards(shards), batch_size, shuffle=True, num_threads=1, **options)

    assert_resumes_exactly(make, batch=(3,), items=lambda batch: batch.index.tolist())


def test_copies_and_fingerprints(shards: list[Path], tmp_path: Path) -> None:
    images = ImageShards(shards)
    copy = pickle.loads(pickle.dumps(images))  # noqa: S301 - our own.
    assert bytes(copy[7].image) == bytes(images[7].image)
    assert copy.fingerprint() == images.fingerprint() != ImageShards(shards[::-1]).fingerprint()
    moved = tmp_path / "moved"
    moved.mkdir()
    elsewhere = [Path(moved, path.name) for path in shards]
    for path, place in zip(shards, elsewhere, strict=True):
        place.write_bytes(path.read_bytes())
    assert ImageShards(elsewhere).fingerprint() == images.fingerprint()


def test_mistakes_are_explained(shards: list[Path], tmp_path: Path) -> None:
    make: Any = ImageShards
    for arguments, error, message in (
        (
            (b"0.tar",),
            TypeError,
            "`shards` must be a path or URL, a pattern such as 'train-{0000..0099}.tar', or a list",
        ),
        ((3,), TypeError, "`shards`"),
        ((tmp_path,), IsADirectoryError, r"`shards` must be files and not a folder.*glob\('\*\.tar'\)"),
        ((tmp_path / "*.tar",), ValueError, r"sorted\(glob\.glob"),
        ((tmp_path / "{0,2,5}.tar",), FileNotFoundError, r"Of the 3 archives of '.*/{0,2,5}\.tar', 2 can be found"),
        (([],), ValueError, "`shards` must be at least one path"),
        (([shards[1]],), ValueError, "`shards` must be archives with samples in them"),
        (([tmp_path / "none.tar"],), OSError, "none.tar"),
    ):
        with pytest.raises(error, match=message):
            make(*arguments)
    with pytest.raises(TypeError, match="`label`"):
        make(shards, label=3)
    without = write(tmp_path / "without.tar", {"1.jpg": b"j", "2.cls": b"0", "3.jpg": b"j"})
    with pytest.raises(ValueError, match=r"samples have an image.*without\.tar/2"):
        make([without])
    (tmp_path / "cut.tar").write_bytes(shards[0].read_bytes()[:700])
    with pytest.raises(FormatError, match=r"cut\.tar"):
        make([tmp_path / "cut.tar"])
    with pytest.raises(
        ValueError,
        match=r"`label` must be a part .*, such as 'cls', 'jpg', 'meta.json', .*label='folder'",
    ):
        make(shards, label="txt")[0]
    wrong = write(tmp_path / "wrong.tar", {"1.jpg": b"j", "1.cls": b"cat"})
    with pytest.raises(ValueError, match=r"wrong\.tar/1 in its part 'cls' is not a whole number: b'cat'"):
        make([wrong])[0]


def test_views_outlive_the_source(shards: list[Path]) -> None:
    view = ImageShards(shards)[2].image
    assert np.frombuffer(view, np.uint8)[0] == 0xFF
