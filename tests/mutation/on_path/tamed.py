"""A pytest plugin that keeps a run on a broken engine short, small, and apart from concurrent runs."""

import resource

import pytest
from hypothesis import Phase, settings

_MEMORY = 8 << 30  # Bytes of address space: enough for every test, and a limit for a queue that lost its bound.

# One counter-example is enough. Looking for the smallest one would hit a time limit at each step.
settings.register_profile("tamed", phases=(Phase.explicit, Phase.generate))
settings.load_profile("tamed")
resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

# It maps more than this limit lets it.
_NOT_HERE = "tests/pipeline/transport/test_rules.py::test_memory_that_the_machine_lacks_is_an_error"


def pytest_configure(config: pytest.Config) -> None:
    """Leave out the test that the limit forbids."""
    config.option.deselect = [*(config.option.deselect or ()), _NOT_HERE]


def pytest_sessionstart() -> None:
    """Do not look for leaked shared memory.

    The machine has one list of segments. Segments of another copy's tests, half made or half gone, would be taken for
    leaks of this one. The engine makes none.
    """
    from tests import leaks  # noqa: PLC0415 - pytest must import it first to rewrite its asserts.

    leaks._list_segments = dict
