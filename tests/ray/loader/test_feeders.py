"""A trainer on one node, fed by actors that a placement group keeps on others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.ray.conftest import MISSING
from tests.ray.work import config

from spdl.ray import run_on_ray

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(240),
    pytest.mark.skipif(MISSING, reason="Ray is not installed: pip install 'spdl-turbo[ray]'"),
]


def _where(x: int) -> tuple[int, str]:
    import ray  # noqa: PLC0415 - an extra.

    time.sleep(0.005)
    return x, ray.get_runtime_context().get_node_id()


def test_each_feeder_is_on_a_node_of_its_own_and_none_on_the_trainers() -> None:
    from ray.cluster_utils import Cluster  # noqa: PLC0415
    from ray.util.placement_group import placement_group  # noqa: PLC0415
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: PLC0415

    import ray  # noqa: PLC0415 - an extra.

    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        feeders = {
            cluster.add_node(num_cpus=2, resources={"feeder": 1}, object_store_memory=100 << 20).node_id for _ in "ab"
        }
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
        group = placement_group([{"CPU": 2, "feeder": 1}] * 2, strategy="STRICT_SPREAD")
        ray.get(group.ready())
        strategy = PlacementGroupSchedulingStrategy(group)
        options = {"scheduling_strategy": strategy, "resources": {"feeder": 1}}
        loader = run_on_ray(
            config(range(400), _where), num_actors=2, num_cpus=2, lease=16, num_threads=2, actor_options=options
        )
        with loader.auto_stop():
            results = list(loader)
        assert sorted(x for x, _ in results) == list(range(400))
        assert {node for _, node in results} == feeders
    finally:
        ray.shutdown()
        cluster.shutdown()
        Path("/tmp/ray/ray_current_cluster").unlink(missing_ok=True)  # noqa: S108 - Ray's, which it leaves there.
