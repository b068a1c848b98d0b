"""Fixtures for the tests of spdl.io."""

from collections.abc import Iterator

import pytest

from spdl.io._common.native import native


@pytest.fixture(params=native.kernel_names())
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once with each instruction set that this processor has."""
    name: str = request.param
    assert native.select_kernels(name)
    yield name
    assert native.select_kernels("")
