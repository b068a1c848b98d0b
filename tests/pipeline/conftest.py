"""A fixture for all tests of pipelines."""

import sys

import pytest


@pytest.fixture(autouse=True)
def without_torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide PyTorch from tests that do not use it, as if they ran alone.

    If tests of other folders have imported it here, each process that a test starts would import it too, to go on with
    its random numbers. That takes seconds.
    """
    if not hasattr(request.module, "torch"):
        monkeypatch.delitem(sys.modules, "torch", raising=False)
