"""Where the samples of a tar archive lie."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.tars import make_tar

from spdl.io import FormatError, SampleIndex, group_samples, iter_tarfile, tar_index

_PARTS = st.text("aB./é", min_size=1, max_size=7).filter(
    lambda name: name == os.path.normpath(name) and name[0] != "/" and ".." not in name.split("/")
)


@pytest.fixture(autouse=True)
def place_for_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_TMP_ARCHIVE", str(tmp_path / "any.tar"))


@given(st.lists(_PARTS, max_size=9))
def test_the_samples_are_those_of_group_samples(names: list[str]) -> None:
    path = Path(os.environ["PYTEST_TMP_ARCHIVE"])
    data = make_tar([(name, bytes([number])) for number, name in enumerate(names)])
    path.write_bytes(data)
    os.utime(path, ns=(1, hash(data) % 10**15))
    samples = tar_index(path).samples()
    expected: list[dict[str, object]] = []
    try:
        for sample in group_samples(iter_tarfile(data)):
            expected.append({name: part if name == "__key__" else bytes(part) for name, part in sample.items()})  # noqa: PERF401
    except FormatError as error:
        with pytest.raises(FormatError, match=re.escape(str(error))):
            list(samples)
        return
    found = [
        {"__key__": sample.key, **{name: data[it.offset : it.offset + it.size] for name, it in sample.parts.items()}}
        for sample in samples
    ]
    assert found == expected
    assert [samples[place - len(samples)] for place in range(len(samples))] == list(samples)


def test_is_a_sequence(tmp_path: Path) -> None:
    path = tmp_path / "archive.tar"
    path.write_bytes(
        make_tar([("README", b""), ("a/1.jpg", b"j"), ("x", b""), ("a/1.CLS.txt", b"c"), ("a/2.jpg", b"k")])
    )
    samples = tar_index(path).samples()
    assert isinstance(samples, SampleIndex)
    assert [(sample.key, list(sample.parts)) for sample in samples] == [("a/1", ["jpg", "cls.txt"]), ("a/2", ["jpg"])]
    assert samples[1:] == [samples[-1]]
    assert repr(samples) == "<SampleIndex of 2 samples>"
    with pytest.raises(IndexError, match="the archive has 2 samples, got the position 2"):
        samples[2]
