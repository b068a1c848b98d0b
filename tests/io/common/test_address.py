"""An address of another protocol is more than a missing file: each call names the protocol and the remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.images import make_image

from spdl import io

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ADDRESS = "s3://bucket/folder/file"

READERS: dict[str, Callable[[str], object]] = {
    "load_npy": io.load_npy,
    "load_npz": io.load_npz,
    "load_npz_batch": lambda path: io.load_npz_batch([path]),
    "load_wav": io.load_wav,
    "iter_tarfile": lambda path: list(io.iter_tarfile(path)),
    "TarFile": io.TarFile,
    "tar_index": io.tar_index,
}

WRITERS: dict[str, Callable[[str], object]] = {
    "save_npy": lambda path: io.save_npy(path, np.zeros(3)),
    "save_npz": lambda path: io.save_npz(path, {"a": np.zeros(3)}),
    "save_image": lambda path: io.save_image(f"{path}.jpg", make_image(16, 16)),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_name_the_protocol(name: str) -> None:
    said = rf'protocol "s3" is not in this build.*pass the file or its bytes.*{re.escape(ADDRESS)}'
    with pytest.raises(FileNotFoundError, match=said):
        READERS[name](ADDRESS)


@pytest.mark.parametrize("name", WRITERS)
def test_writers_name_the_protocol(name: str) -> None:
    said = rf'protocol "s3" is not in this build, which writes files.*{re.escape(ADDRESS)}'
    with pytest.raises(FileNotFoundError, match=said):
        WRITERS[name](ADDRESS)


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_is_a_missing_file(name: str, tmp_path: Path) -> None:
    missing = tmp_path / "no such file"
    with pytest.raises(FileNotFoundError, match=rf"No such file.*{re.escape(str(missing))}"):
        READERS[name](str(missing))
