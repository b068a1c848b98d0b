"""A machine that is lost takes its actors and the results in its store along: each item comes once all the same."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ray.conftest import MISSING
from tests.ray.work import config, descendants, kill, pids

from spdl.ray import run_on_ray

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(240),
    pytest.mark.skipif(MISSING, reason="Ray is not installed: pip install 'spdl-turbo[ray]'"),
]


@pytest.fixture
def nodes() -> Iterator[Any]:
    """Start a cluster of three nodes on this machine, of which the first has no CPUs to give."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    import ray  # noqa: PLC0415 - an extra.

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        yield cluster, [cluster.add_node(num_cpus=2, object_store_memory=100 << 20) for _ in range(2)]
    finally:
        ray.shutdown()
        cluster.shutdown()
        Path("/tmp/ray/ray_current_cluster").unlink(missing_ok=True)  # noqa: S108 - Ray's, which it leaves there.


def _make(x: int) -> tuple[int, Any]:
    time.sleep(0.01)
    return x, np.full(200_000, x % 251, np.uint8)


def test_a_node_is_lost_with_its_actors_and_results(nodes: Any) -> None:
    import ray  # noqa: PLC0415 - an extra.

    cluster, others = nodes
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    declared = config(range(1_000), _make, batch=5)
    loader = run_on_ray(declared, num_actors=4, lease=20, prefetch=3, num_threads=2)
    got: list[int] = []
    lost = False
    with loader.auto_stop():
        for number, batch in enumerate(loader):
            for x, pixels in batch:
                assert (pixels == x % 251).all()
                got.append(x)
            if lost or number < 10:
                continue
            below = [descendants(node.all_processes["raylet"][0].process.pid) for node in others]
            if all(set(pids(loader)) & set(processes) for processes in below):
                # The node has results then that were not fetched.
                time.sleep(1)
                for pid in below[0]:
                    with suppress(ProcessLookupError):
                        kill(pid)
                lost = True
    assert lost, "each node has had an actor while it ran"
    assert sorted(got) == list(range(1_000))
