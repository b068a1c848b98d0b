"""A pytest plugin for tests that need a GPU, with a driver to test the logic without one.

`make test-cuda` runs the tests marked `cuda` on the real driver. All other tests that need a driver get `fake_cuda`, a
library of ours in place of the real one. A process loads only one driver, so no run has both.
"""

import ctypes
import gc
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spdl.io.utils import built_with_cuda, cuda_info

VARIABLE = "SPDL_TEST_CUDA_DRIVER"
"""Names the library that is loaded in place of CUDA's."""

COMPILER = "SPDL_TEST_CC"
"""Names the compiler that builds the library if PATH has none, as when a wheel is tested."""

SOURCE = Path(__file__).with_name("fake_cuda_driver.c")

CUDA_ONLY = pytest.mark.skip(reason="needs an NVIDIA GPU: `make test-cuda` runs it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("cuda")]
    skip = CUDA_ONLY
    if marked and config.option.markexpr == "cuda":
        if built_with_cuda():
            return
        skip = pytest.mark.skip(reason=f"needs an NVIDIA GPU. {cuda_info().driver.reason}")
    for item in marked:
        item.add_marker(skip)


class FakeDriver:
    """The settings and counters of the driver in fake_cuda_driver.c."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.fake_set_latency.argtypes = [ctypes.c_double]
        self._library.fake_fail.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
        for name in ("fake_calls", "fake_mistakes", "fake_blocks", "fake_events"):
            getattr(self._library, name).restype = ctypes.c_long

    def reset(self) -> None:
        self._library.fake_reset()

    def set_latency(self, seconds: float) -> None:
        """Let every copy take this long, and happen at its end."""
        self._library.fake_set_latency(seconds)

    def set_devices(self, count: int) -> None:
        self._library.fake_set_devices(count)

    def set_pools(self, *, supported: bool) -> None:
        self._library.fake_set_pools(int(supported))

    def fail(self, call: str, status: int, after: int = 0) -> None:
        """Let the call of this name fail that comes after `after` others."""
        self._library.fake_fail(call.encode(), after, status)

    def calls(self, call: str) -> int:
        return int(self._library.fake_calls(call.encode()))

    @property
    def mistakes(self) -> int:
        return int(self._library.fake_mistakes())

    @property
    def copies_under_way(self) -> int:
        return int(self._library.fake_copies_under_way())

    def forget_copies(self) -> None:
        self._library.fake_forget_copies()

    @property
    def device_blocks(self) -> int:
        return int(self._library.fake_blocks(0))

    @property
    def pinned_blocks(self) -> int:
        return int(self._library.fake_blocks(1))

    @property
    def events(self) -> int:
        return int(self._library.fake_events())


def find_compiler() -> str:
    """Return a C compiler, or skip the test."""
    compiler = os.environ.get(COMPILER) or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler for the libraries that stand in for NVIDIA's")
    return compiler


@pytest.fixture(scope="session")
def fake_cuda_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled driver."""
    compiler = find_compiler()
    library = tmp_path_factory.mktemp("cuda") / "libfakecuda.so"
    options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread", "-ldl"]
    subprocess.run([compiler, *options, "-o", str(library), str(SOURCE)], check=True, timeout=60)
    return library


@pytest.fixture(scope="session")
def loaded_fake_cuda(fake_cuda_library: Path) -> FakeDriver:
    """Return the driver, loaded into this process."""
    os.environ[VARIABLE] = str(fake_cuda_library)
    try:
        assert built_with_cuda()
    finally:
        del os.environ[VARIABLE]
    return FakeDriver(fake_cuda_library)


@pytest.fixture
def fake_cuda(loaded_fake_cuda: FakeDriver) -> Iterator[FakeDriver]:
    """Return a GPU made of main memory. It detects memory that is used too early, lost, or freed twice."""
    loaded_fake_cuda.reset()
    yield loaded_fake_cuda
    gc.collect()
    assert loaded_fake_cuda.mistakes == 0
    assert loaded_fake_cuda.copies_under_way == 0
    assert loaded_fake_cuda.events == 0
    assert loaded_fake_cuda.device_blocks == 0
    loaded_fake_cuda.reset()
