"""The parts of a sample are found by a name, or by several of which it has one."""

from __future__ import annotations

import copy
import pickle
import random
from typing import TYPE_CHECKING

import pytest
from tests.io.images import make_jpeg
from tests.io.tars import make_tar

from spdl.dataloader import ImageShards
from spdl.source import TarShards

if TYPE_CHECKING:
    from pathlib import Path


def test_names_of_parts_may_be_choices(tmp_path: Path) -> None:
    rng = random.Random(3)
    names = ["jpg", "png", "jpeg", "cls", "seg.png"]
    samples = [rng.sample(names, rng.randint(1, 4)) for _ in range(40)]
    members = [(f"{n}.{name}", name.encode()) for n, parts in enumerate(samples) for name in parts]
    (tmp_path / "train.tar").write_bytes(make_tar(members))
    for number, parts in enumerate(TarShards(tmp_path / "train.tar")):
        for _ in range(10):
            choice = rng.sample(names, rng.randint(2, 4))
            name = ";".join(choice)
            there = [each for each in choice if each in samples[number]]
            assert (name in parts) == bool(there)
            if there:
                assert bytes(parts[name]) == bytes(parts.get(name)) == there[0].encode()
                continue
            assert parts.get(name) is None
            assert parts.get(name, 3) == 3
            with pytest.raises(KeyError, match=f"the sample '{number}' of .*train.tar has .*, and none of '{name}'"):
                parts[name]
    # A part may have such a name of its own.
    (tmp_path / "odd.tar").write_bytes(make_tar([("1.a;b", b"odd"), ("1.a", b"a")]))
    (odd,) = TarShards(tmp_path / "odd.tar")
    assert (bytes(odd["a;b"]), bytes(odd["b;a"]), list(odd)) == (b"odd", b"a", ["__key__", "a;b", "a"])


def test_a_function_that_labels_images_gets_such_parts(tmp_path: Path) -> None:
    path = tmp_path / "train.tar"
    path.write_bytes(make_tar([("1.jpg", make_jpeg(8, 8)), ("1.txt", b"7")]))
    assert ImageShards([path], label=lambda parts: bytes(parts["cls;txt"]))[0].label == b"7"
    with pytest.raises(KeyError, match=f"the sample '1' of {path} has 'jpg', 'txt', and no part 'cls'"):
        ImageShards([path], label=lambda parts: parts["cls"])[0]


def test_a_sample_with_many_parts_is_shortened(tmp_path: Path) -> None:
    (tmp_path / "train.tar").write_bytes(make_tar([(f"1.{number}", b"") for number in range(30)]))
    (sample,) = TarShards(tmp_path / "train.tar")
    with pytest.raises(KeyError, match=r"has '0', .*, '19' and 10 more, and no part 'jpg'\. Where names differ"):
        sample["jpg"]


def test_parts_are_a_dict(tmp_path: Path) -> None:
    (tmp_path / "train.tar").write_bytes(make_tar([("1.jpg", b"photo"), ("1.cls", b"7")]))
    (sample,) = TarShards(tmp_path / "train.tar")
    assert isinstance(sample, dict)
    for name, part in sample.items():
        sample[name] = part if name == "__key__" else bytes(part)
    assert sample == {"__key__": "1", "jpg": b"photo", "cls": b"7"}
    assert {**sample, "cls": 7} == {"__key__": "1", "jpg": b"photo", "cls": 7}
    for twin in (copy.copy(sample), pickle.loads(pickle.dumps(sample))):  # noqa: S301 - our own.
        assert (twin, twin["png;jpg"]) == (sample, b"photo")
        with pytest.raises(KeyError, match=r"the sample '1' of .*train\.tar has"):
            twin["png"]
    with pytest.raises(TypeError, match="unhashable"):
        sample[["jpg"]]
    with pytest.raises(KeyError, match="no part 3"):
        sample[3]
