"""A cluster of Ray on this machine, for the tests of one file."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Ray has no builds for the free-threaded Python, and those who do not need it should not have to install it.
MISSING = importlib.util.find_spec("ray") is None


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Start a cluster with four CPUs, and return its address."""
    if MISSING:
        pytest.skip("Ray is not installed: pip install 'spdl-turbo[ray]'")
    import ray  # noqa: PLC0415 - an extra.

    ray.init(
        num_cpus=4,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        object_store_memory=256 << 20,
    )
    # Test modules are not in the search path of the actors.
    for name, module in list(sys.modules.items()):
        if name.startswith("tests.ray"):
            ray.cloudpickle.register_pickle_by_value(module)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()
