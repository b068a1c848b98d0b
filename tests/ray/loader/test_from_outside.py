"""Actors are seen by the `spdl` command on their machine, as any pipeline is."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.ray.work import await_that, config, pids, slowly

from spdl.ray import run_on_ray

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.mark.usefixtures("cluster")
def test_top_has_a_pipeline_for_each_actor_and_a_row_for_each_stage() -> None:
    loader = run_on_ray(config(range(100_000), slowly, batch=4), num_actors=2, lease=64)
    with loader.auto_stop():
        for _ in loader:
            if len(pids(loader)) == 2:
                break
        actors = set(pids(loader))
        seen: dict[int, Any] = {}

        def are_shown() -> bool:
            shown = subprocess.run(
                [sys.executable, "-m", "spdl", "top", "--once", "--json"], capture_output=True, text=True, check=True
            )
            seen.update({it["pid"]: it for line in shown.stdout.splitlines() for it in json.loads(line)})
            return seen.keys() >= actors

        await_that(are_shown, "both actors are shown")
        for pid in actors:
            assert [stage["name"].partition("(")[0] for stage in seen[pid]["stages"]] == ["slowly", "aggregate"]
