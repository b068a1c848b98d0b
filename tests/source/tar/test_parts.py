"""The parts of a sample are found by a name, or by several of which it has one."""

from __future__ import annotations

import copy
import pickle
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.images import make_jpeg
from tests.io.tars import make_tar

from spdl.dataloader import ImageShards
from spdl.source import TarShards

NAMES = ["jpg", "png", "jpeg", "cls", "seg.png"]


@settings(max_examples=30, deadline=None)
@given(
    samples=st.lists(st.lists(st.sampled_from(NAMES), unique=True, min_size=1), min_size=1, max_size=5),
    choices=st.lists(st.lists(st.sampled_from(NAMES), min_size=2).map(";".join), min_size=1, max_size=10),
)
def test_choices_are_those_of_webdataset(samples: list[list[str]], choices: list[str]) -> None:
    filters = pytest.importorskip("webdataset.filters", reason="needs webdataset, whose choice is the oracle")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.tar")
        path.write_bytes(
            make_tar([(f"{n}.{name}", name.encode()) for n, names in enumerate(samples) for name in names])
        )
        for number, parts in enumerate(TarShards(path)):
            plain = dict(parts)
            for name in choices:
                try:
                    expected = filters.getfirst(plain, name)
                except ValueError:
                    assert (name in parts, parts.get(name), parts.get(name, 3)) == (False, None, 3)
                    said = f"the sample '{number}' of {path} has {', '.join(map(repr, samples[number]))}, and none of "
                    with pytest.raises(KeyError, match=re.escape(f"{said}{name!r}")):
                        parts[name]
                    continue
                assert name in parts
                assert bytes(parts[name]) == bytes(parts.get(name, b"")) == bytes(expected)


def test_a_part_may_have_such_a_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "odd.tar").write_bytes(make_tar([("1.a;b", b"odd"), ("1.a", b"a")]))
    (odd,) = TarShards(tmp_path / "odd.tar")
    assert (bytes(odd["a;b"]), bytes(odd["b;a"]), list(odd)) == (b"odd", b"a", ["__key__", "a;b", "a"])


def test_a_function_that_labels_images_gets_such_parts(tmp_path: Path) -> None:
    path = tmp_path / "train.tar"
    path.write_bytes(make_tar([("1.jpg", make_jpeg(8, 8)), ("1.txt", b"7")]))
    assert ImageShards([path], label=lambda parts: bytes(parts["cls;txt"]))[0].label == b"7"
    with pytest.raises(KeyError, match=f"the sample '1' of {path} has 'jpg', 'txt', but no part 'cls'"):
        ImageShards([path], label=lambda parts: parts["cls"])[0]


def test_a_sample_with_many_parts_is_shortened(tmp_path: Path) -> None:
    (tmp_path / "train.tar").write_bytes(make_tar([(f"1.{number}", b"") for number in range(30)]))
    (sample,) = TarShards(tmp_path / "train.tar")
    with pytest.raises(KeyError, match=r"has '0', .*, '19' and 10 more, but no part 'jpg'\. Where names differ"):
        sample["jpg"]


def test_parts_are_a_dict(tmp_path: Path) -> None:
    (tmp_path / "train.tar").write_bytes(make_tar([("1.jpg", b"photo"), ("1.cls", b"7")]))
    sample: Any
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
