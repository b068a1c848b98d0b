"""cuda_info: what is usable, and why the rest is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cuda_driver import VARIABLE, FakeDriver

PROGRAM = """
import ctypes, os
from spdl.io.utils import cuda_info
if "fake" in os.environ["SPDL_TEST_CUDA_DRIVER"]:
    ctypes.CDLL(os.environ["SPDL_TEST_CUDA_DRIVER"]).fake_set_version({version})
print(cuda_info())
"""


def info(environment: dict[str, str], version: int = 12080) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(version=version)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_without_a_driver_it_says_so_of_every_part() -> None:
    first, *parts = info({VARIABLE: "/nowhere/libcuda.so.1"}).splitlines()
    assert first == "no GPU"
    assert [line.split(":")[0] for line in parts] == ["driver", "nvjpeg", "nvrtc", "nvcuvid"]
    for line in parts:
        assert "CUDA's driver library cannot be loaded (/nowhere/libcuda.so.1: cannot open" in line


def test_with_a_driver_the_other_libraries_are_named_with_their_package(fake_cuda: FakeDriver, tmp_path: Path) -> None:
    # A folder without libraries in the place of this Python's packages.
    (tmp_path / "nvidia").mkdir()
    environment = {VARIABLE: str(fake_cuda.path), "PYTHONPATH": str(tmp_path), "CUDA_HOME": str(tmp_path)}
    missing = {f"SPDL_TEST_{name}": f"/nowhere/{name}" for name in ("NVJPEG", "NVRTC", "NVCUVID")}
    gpu, driver, jpeg, compiler, video = info({**environment, **missing}).splitlines()
    assert gpu == "GPU 0: Fake GPU 0"
    assert driver == f"driver: 12.8 ({fake_cuda.path})"
    assert jpeg.startswith("nvjpeg: nvJPEG cannot be loaded (/nowhere/NVJPEG: cannot open shared object file")
    assert "package nvidia-nvjpeg-cu12 (for CUDA 13: nvidia-nvjpeg), which you can install with pip" in jpeg
    assert "NVRTC, the compiler of CUDA C++ cannot be loaded" in compiler
    assert "nvidia-cuda-nvrtc-cu12" in compiler
    assert "NVIDIA_DRIVER_CAPABILITIES contains" in video


def test_a_library_without_a_function_is_too_old(fake_cuda: FakeDriver) -> None:
    text = info({VARIABLE: str(fake_cuda.path), "SPDL_TEST_NVJPEG": "libm.so.6"})
    assert "nvJPEG libm.so.6 has no nvjpegGetProperty: it is older than CUDA 12; install the package" in text


@pytest.mark.parametrize(("version", "found"), [(12080, "so.12"), (13000, "so.13")])
def test_the_packages_of_this_python_are_searched_for_what_the_driver_serves(
    fake_cuda: FakeDriver, tmp_path: Path, version: int, found: str
) -> None:
    for folder, name in (("nvjpeg", "libnvjpeg.so.12"), ("cu13", "libnvjpeg.so.13")):
        place = tmp_path / "nvidia" / folder / "lib"
        place.mkdir(parents=True)
        # It is no library, and the message about it shows that it was found.
        (place / name).write_text("no library at all " * 20)
    environment = {VARIABLE: str(fake_cuda.path), "PYTHONPATH": str(tmp_path), "CUDA_HOME": str(tmp_path)}
    text = info(environment, version)
    jpeg = next(line for line in text.splitlines() if line.startswith("nvjpeg: "))
    if "cannot be loaded" not in jpeg:
        pytest.skip("the system of this machine has nvJPEG")
    assert f"libnvjpeg.{found}: invalid ELF header" in jpeg
    assert str(tmp_path / "nvidia") in jpeg


def test_nvjpeg_inside_of_torchvision_is_found(fake_cuda: FakeDriver, tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise AssertionError('this need not be imported')")
    inside = tmp_path / "torchvision.libs"
    inside.mkdir()
    for name in ("libnvjpeg.36e11081.so.13", "libnvjpeg.36e11081.so.14", "libnvjpegother.so.13"):
        (inside / name).write_text("no library at all " * 20)
    environment = {VARIABLE: str(fake_cuda.path), "PYTHONPATH": str(tmp_path), "CUDA_HOME": str(tmp_path)}
    text = info(environment, 13000)
    jpeg = next(line for line in text.splitlines() if line.startswith("nvjpeg: "))
    if "cannot be loaded" not in jpeg or "site-packages/nvidia" in jpeg:
        pytest.skip("this machine has nvJPEG")
    assert f"{inside}/libnvjpeg.36e11081.so.13: invalid ELF header" in jpeg
