"""Settings and fixtures for all tests."""

import gc
import os
import random
import signal
import sys
from collections.abc import Generator
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# No test judges speed: one example, or drawing it, may take long on a busy machine. What an earlier run found is not
# tried first, so that each run has the same verdict.
settings.register_profile(
    "unhurried", parent=settings.default, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

# Hypothesis also draws what it finds in the modules imported so far. Those depend on the tests that ran before in the
# same worker, so a seed would not draw the same examples twice.
providers._get_local_constants = lambda: providers._local_constants

# numpy's library for products ends its threads where a process forks, and begins them again when it is next used: that
# would look like a thread that a test leaves behind.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest_plugins = ["tests.costs", "tests.rings", "tests.leaks", "tests.cuda_driver", "tests.gpu_libraries", "pytester"]


# A shell that runs the tests in the background makes them ignore Ctrl-C, and programs that tests start inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while the tests are collected: it would look through all cases again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file that imports PyTorch, or what needs it, where there is none, as on the free-threaded 3.13."""
    report = yield
    if (
        isinstance(collector, pytest.Module)
        and report.failed
        and "No module named 'torch'" in str(report.longrepr)
        and find_spec("torch") is None
    ):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 1, "Skipped: could not import 'torch'")
    return report


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Seed the generators that a whole process shares, so that what a test draws from them does not change."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what datasets use.
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)


@pytest.fixture(scope="module", autouse=True)
def frozen_heap() -> None:
    """Freeze everything that exists before a file's tests, so that the collections in these skip it.

    Many tests collect, some hundreds of times. Beside all test modules and the libraries that earlier tests have
    imported, each collection would take a quarter of a second.
    """
    gc.collect()
    gc.freeze()
