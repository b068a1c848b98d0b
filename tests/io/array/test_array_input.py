"""The inputs that arrays and archives are loaded from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from spdl.io import load_npy, save_npy

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.arange(10)


def test_mapped_files_keep_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    save_npy(path, ARRAY)
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    arrays = [load_npy(path) for _ in range(50)]
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert all((array == ARRAY).all() for array in arrays)


def test_what_cannot_be_mapped_is_read() -> None:
    source, target = os.pipe()
    with open(target, "wb") as file:  # noqa: PTH123
        save_npy(file, ARRAY)
    try:
        assert (load_npy(f"/proc/self/fd/{source}") == ARRAY).all()
    finally:
        os.close(source)


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        load_npy(tmp_path)
    with pytest.raises(ValueError, match="null character"):
        load_npy("array\0.npy")


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.npy")
    save_npy(path, ARRAY)
    assert (load_npy(path) == ARRAY).all()
    assert (load_npy(str(path)) == ARRAY).all()
    path.unlink()
    with pytest.raises(FileNotFoundError) as raised:
        load_npy(path)
    assert raised.value.filename == str(path)
