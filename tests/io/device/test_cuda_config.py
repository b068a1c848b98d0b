"""cuda_config: the GPU, the stream, the allocator, and the errors where there is no GPU."""

import os
import pickle
import subprocess
import sys
from typing import Any

import pytest
from tests.cuda_driver import VARIABLE, FakeDriver

from spdl.io import CUDAConfig, cuda_config


def test_it_holds_what_was_asked_for(fake_cuda: FakeDriver) -> None:
    config = cuda_config(0)
    assert isinstance(config, CUDAConfig)
    assert (config.device_index, config.stream, config.allocator) == (0, 2, None)
    pair: Any = [max, min]
    config = cuda_config(device_index=0, stream=7, allocator=pair)
    assert (config.device_index, config.stream) == (0, 7)
    assert config.allocator == tuple(pair)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 - our own.


def test_what_cannot_be_is_refused(fake_cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: Any = cuda_config
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(
        ValueError, match=r"`device_index` must be less than 1, the number of GPUs.*got 1.*CUDA_VISIBLE.* is 3\."
    ):
        wrong(1)
    with pytest.raises(ValueError, match="`device_index` must be an int of at least 0, got -1"):
        wrong(-1)
    with pytest.raises(TypeError, match="`device_index` must be an int of at least 0, got 'cuda'"):
        wrong("cuda")
    for stream in (-1, object()):
        with pytest.raises((TypeError, ValueError), match=r"`stream` must be a stream's handle.*cuda_stream"):
            wrong(0, stream)
    for allocator in (max, (max,), (max, 3), (max, min, max)):
        with pytest.raises(TypeError, match="`allocator` must be a pair of functions, to allocate and to free, or"):
            wrong(0, 2, allocator)


PROGRAM = """
import ctypes, os, sys
import spdl.io
library = os.environ["SPDL_TEST_CUDA_DRIVER"]
if "fake" in library:
    fake = ctypes.CDLL(library)
    fake.fake_set_devices({devices})
for call in (lambda: spdl.io.cuda_config(0), lambda: spdl.io.cpu_storage(10)):
    if {init}:
        fake.fake_fail(b"cuInit", 0, {init})
    try:
        call()
    except RuntimeError as error:
        print(error)
"""


def complaints(driver: object, devices: int = 1, init: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(devices=devices, init=init)],
        env={**os.environ, VARIABLE: str(driver), "CUDA_VISIBLE_DEVICES": "9"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stderr == ""
    first, second, *rest = done.stdout.splitlines()
    assert rest == []
    assert first.startswith("cuda_config needs a GPU. CUDA's driver ")
    assert second.startswith("Pinned memory needs a GPU. CUDA's driver ")
    assert second.endswith(". Without one, pass pin_memory=False.")
    return first


def test_without_a_driver_the_error_names_the_library_and_the_remedy() -> None:
    message = complaints("/nowhere/libcuda.so.1")
    assert "library cannot be loaded (/nowhere/libcuda.so.1: cannot open shared object file" in message
    assert "comes with NVIDIA's driver: install that on this machine, or give the container access" in message


def test_an_old_driver_is_named_with_what_it_lacks() -> None:
    message = complaints("libm.so.6")
    assert "library libm.so.6 has no cuInit: it is older than CUDA 11.2; update NVIDIA's driver" in message


@pytest.mark.parametrize("case", [{"devices": 0}, {"init": 100}])
def test_a_driver_without_a_gpu_says_where_to_look(fake_cuda: FakeDriver, case: dict[str, int]) -> None:
    message = complaints(fake_cuda.path, **case)
    assert "is here but sees no GPU: see what `nvidia-smi` lists" in message
    assert 'CUDA_VISIBLE_DEVICES, which is "9", hides it' in message


def test_a_driver_that_does_not_start_is_named_with_its_status(fake_cuda: FakeDriver) -> None:
    assert "does not start: cuInit failed with CUDA error 999" in complaints(fake_cuda.path, init=999)
