"""Test that random generators in a pipeline's process continue from the state of those in this process."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.subprocess.work import METHODS

from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess

if TYPE_CHECKING:
    from spdl.pipeline.defs import PipelineConfig

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.timeout(120)


def config_of(op: Any) -> PipelineConfig[Any]:
    return PipelineBuilder[Any, Any]().add_source(range(5)).pipe(op).add_sink(2).get_config()


def draw(_: Any) -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))  # noqa: S311, NPY002 - they are tested.


@pytest.mark.parametrize("method", METHODS[1:])
def test_it_goes_on_there_as_it_would_here(method: str) -> None:
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002
    torch.manual_seed(7)
    # Draw once, so that the state is not that of a fresh seed.
    draw(None)
    # The first one draws here as little as the second. Where a process is not forked, it takes seconds to import torch.
    there = [
        list(run_pipeline_in_subprocess(config_of(draw), num_threads=1, mp_context=each))
        for each in dict.fromkeys(["fork", method])
    ]
    here = [draw(None) for _ in range(5)]
    assert there == [here] * len(there)


def test_an_initializer_may_seed() -> None:
    random.seed(1)
    items = run_pipeline_in_subprocess(config_of(draw), num_threads=1, initializer=seed)
    drawn = [python for python, _, _ in items]
    seed()
    assert drawn == [random.random() for _ in range(5)]  # noqa: S311


def seed() -> None:
    random.seed(99)
