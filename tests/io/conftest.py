"""Fixtures for the tests of spdl.io."""

from collections.abc import Iterator

import pytest

from tests.io.inside import instruction_sets, using_instruction_set


@pytest.fixture(params=instruction_sets())
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once with each instruction set that this processor has."""
    name: str = request.param
    with using_instruction_set(name):
        yield name
