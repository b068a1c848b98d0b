"""How subprocesses are started."""

from __future__ import annotations

import pytest


# To be started by "spawn" is dear, and like the other two afterwards: one test of all does so.
@pytest.fixture(params=["fork", "forkserver"])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)
