"""Arrays in a folder: what is damaged there, or may be of something else, is made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.io._array.kept_arrays import kept_arrays

if TYPE_CHECKING:
    from pathlib import Path


class Making:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> dict[str, Any]:
        self.times += 1
        return {"starts": np.arange(5), "lengths": np.arange(3)}


def test_arrays_are_made_once(tmp_path: Path) -> None:
    make = Making()
    for _ in range(2):
        found = kept_arrays("kind", "what", tmp_path, make)
        assert found["starts"].tolist() == [0, 1, 2, 3, 4]
        assert found["lengths"].tolist() == [0, 1, 2]
    assert make.times == 1
    kept_arrays("kind", "something else", tmp_path, make)
    assert make.times == 2


def test_nothing_is_kept_of_what_nobody_can_name(tmp_path: Path) -> None:
    make = Making()
    for _ in range(2):
        assert kept_arrays("kind", None, tmp_path, make)["lengths"].tolist() == [0, 1, 2]
    assert make.times == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [b"starts", b"lengths", b"identity"])
def test_a_damaged_name_is_no_array_that_is_missing(tmp_path: Path, name: bytes) -> None:
    make = Making()
    kept_arrays("kind", "what", tmp_path, make)
    (file,) = tmp_path.glob("*.index")
    whole = file.read_bytes()
    file.write_bytes(whole.replace(name + b".npy", name[:-1] + b"X.npy"))
    assert sorted(kept_arrays("kind", "what", tmp_path, make)) == sorted(Making()())
    assert make.times == 2


def test_every_damaged_byte(tmp_path: Path) -> None:
    kept_arrays("kind", "what", tmp_path, Making())
    (file,) = tmp_path.glob("*.index")
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        found = kept_arrays("kind", "what", tmp_path, Making())
        assert found["starts"].tolist() == [0, 1, 2, 3, 4], place
        assert found["lengths"].tolist() == [0, 1, 2], place
