"""An address is no place to write to: each writer names the protocol and the remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.images import make_image

from spdl import io

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESS = "s3://bucket/folder/file"

WRITERS: dict[str, Callable[[str], object]] = {
    "save_npy": lambda path: io.save_npy(path, np.zeros(3)),
    "save_npz": lambda path: io.save_npz(path, {"a": np.zeros(3)}),
    "save_image": lambda path: io.save_image(f"{path}.jpg", make_image(16, 16)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_writers_name_the_protocol(name: str) -> None:
    said = rf'protocol "s3" is not in this build, which writes files.*{re.escape(ADDRESS)}'
    with pytest.raises(FileNotFoundError, match=said):
        WRITERS[name](ADDRESS)
