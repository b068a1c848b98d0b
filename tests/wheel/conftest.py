"""The wheel to test: $SPDL_WHEEL, which scripts/test_wheel.sh sets."""

import os
import zipfile
from pathlib import Path
from typing import NoReturn

import pytest


@pytest.fixture(scope="session")
def wheel() -> Path:
    path = os.environ.get("SPDL_WHEEL")
    if path is None:
        pytest.skip("no wheel is named by SPDL_WHEEL; scripts/test_wheel.sh builds one and runs these tests")
    return Path(path)


def cannot(reason: str) -> NoReturn:
    """Skip a test. If a release is tested, which SPDL_IMPORT_ORDER indicates, fail instead."""
    if os.environ.get("SPDL_IMPORT_ORDER"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder
