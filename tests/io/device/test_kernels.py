"""The kernels: compiled by the real NVRTC, which needs no GPU, and kept for the next process."""

import ctypes
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.cuda_driver import VARIABLE
from tests.gpu_libraries import FakeGpu
from tests.io.inside import kernel_source
from tests.io.processes import ROOT

PLACES = ("cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13")


def real_compiler() -> Any:
    spec = find_spec("nvidia")
    packages = [] if spec is None else list(spec.submodule_search_locations or ())
    for path in [Path(package) / place for package in packages for place in PLACES]:
        if path.exists():
            return ctypes.CDLL(str(path))
    pytest.skip("needs NVRTC: `pip install --group cuda`")


@pytest.mark.parametrize("architecture", [75, 80, 86, 89, 90, 100, 120])
def test_nvrtc_compiles_the_kernels(architecture: int) -> None:
    compiler = real_compiler()
    program = ctypes.c_void_p()
    source = kernel_source().encode()
    assert compiler.nvrtcCreateProgram(ctypes.byref(program), source, b"spdl.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 2)(f"--gpu-architecture=sm_{architecture}".encode(), b"--std=c++17")
    status = compiler.nvrtcCompileProgram(program, 2, options)
    size = ctypes.c_size_t()
    compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    compiler.nvrtcGetProgramLog(program, log)
    assert (status, log.value) == (0, b"")
    compiler.nvrtcGetCUBINSize(program, ctypes.byref(size))
    binary = ctypes.create_string_buffer(size.value)
    compiler.nvrtcGetCUBIN(program, binary)
    compiler.nvrtcDestroyProgram(ctypes.byref(program))
    for name in (b"convert_planes", b"filter_pixels", b"write_canvas", b"convert_to_planes", b"convert_to_pixels"):
        assert b".text." + name + b"\0" in binary.raw


PROGRAM = """
import ctypes, os, sys
from tests.io.inside import prepare_gpu_images
fake = ctypes.CDLL(os.environ["SPDL_TEST_CUDA_DRIVER"])
fake.fake_fail.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
fake.fake_fail(b"nvrtcCompileProgram", 0, {status})
try:
    prepare_gpu_images(0, sys.argv[1])
except RuntimeError as error:
    print(error)
print(fake.fake_calls(b"nvrtcCompileProgram"), "compiled")
"""


def prepare(gpu: FakeGpu, folder: Path, status: int = 0) -> str:
    environment = {**os.environ, VARIABLE: str(gpu.driver.path), **gpu.environment}
    command = [sys.executable, "-c", PROGRAM.format(status=status), str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert done.stderr == ""
    return done.stdout


def test_the_next_process_finds_what_was_compiled(fake_gpu: FakeGpu, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "kernels"
    assert prepare(fake_gpu, folder) == "1 compiled\n"
    (kept,) = folder.iterdir()
    assert kept.name.startswith("kernels-sm_90-")
    assert prepare(fake_gpu, folder) == "0 compiled\n"
    content = kept.read_bytes()
    for damage in (content[:-1], content[:-1] + b"x", b"", content[:8]):
        kept.write_bytes(damage)
        assert prepare(fake_gpu, folder) == "1 compiled\n"
        assert kept.read_bytes() == content
    assert [path.name for path in folder.iterdir()] == [kept.name]


def test_a_folder_that_cannot_be_written_to_costs_a_compilation(fake_gpu: FakeGpu, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for _ in range(2):
        assert prepare(fake_gpu, tmp_path / "file" / "kernels") == "1 compiled\n"


def test_what_the_compiler_says_is_in_the_error(fake_gpu: FakeGpu, tmp_path: Path) -> None:
    text = prepare(fake_gpu, tmp_path, status=6)
    assert "compiling kernels with --gpu-architecture=sm_90 failed: nvrtcCompileProgram returned 6 (NVRTC_ERROR" in text
    assert "kernels.cu(1): error: what the compiler says" in text


PLACES_AND_FORKS = """
import ctypes, os, sys
from tests.io.inside import prepare_gpu_images
from spdl.io.utils import cuda_info
fake = ctypes.CDLL(os.environ["SPDL_TEST_CUDA_DRIVER"])
fake.fake_set_devices(3)
cuda_info()
print("before", [fake.fake_active(device) for device in range(3)], flush=True)
prepare_gpu_images(1, sys.argv[1])
print("after", [fake.fake_active(device) for device in range(3)], flush=True)
child = os.fork()
if child == 0:
    try:
        prepare_gpu_images(1, sys.argv[1])
    except RuntimeError as error:
        print(error, flush=True)
    print(cuda_info().nvcuvid.reason, cuda_info().nvjpeg.reason, sep="\\n", flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_only_the_named_gpu_gets_a_context_and_a_fork_is_told(fake_gpu: FakeGpu, tmp_path: Path) -> None:
    environment = {**os.environ, VARIABLE: str(fake_gpu.driver.path), **fake_gpu.environment}
    command = [sys.executable, "-c", PLACES_AND_FORKS, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert done.stderr == ""
    before, after, *told = done.stdout.splitlines()
    assert (before, after) == ("before [0, 0, 0]", "after [0, 1, 0]")
    assert len(told) == 3
    for line in told:
        assert line.startswith("CUDA was used in this process's parent before the fork, and does not work in the child")
