"""What of CUDA there is, which is asked for wherever a program may run."""

import os
import subprocess
import sys

import pytest
from tests.cuda_driver import VARIABLE, FakeDriver

from spdl.io.utils import built_with_cuda


def test_a_gpu_is_found(fake_cuda: FakeDriver) -> None:
    assert built_with_cuda() is True


@pytest.mark.cuda
def test_a_real_gpu_is_found() -> None:
    assert built_with_cuda() is True


def test_nothing_raises_without_a_driver() -> None:
    program = (
        "from spdl.io.utils import built_with_cuda, built_with_nvcodec, built_with_nvjpeg\n"
        "print(built_with_cuda(), built_with_nvcodec(), built_with_nvjpeg())\n"
    )
    environment = {**os.environ, VARIABLE: "/none/libcuda.so"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False False False\n", "")
