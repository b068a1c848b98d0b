"""The kernels for GPUs, compiled for the processor: the same source, with a loop in place of the threads of a GPU."""

import re
import subprocess
from pathlib import Path

import pytest

BEFORE = """
struct Dim3 { unsigned x, y, z; };
static thread_local Dim3 blockIdx, blockDim, threadIdx, gridDim;
#define __global__
#define __device__
"""

AFTER = """
extern "C" unsigned long NAME_bytes;
unsigned long NAME_bytes = sizeof(spdl::cuda::kernels::TYPE);
extern "C" void NAME_run(void* given, const unsigned* grid, const unsigned* block) {
    using namespace spdl::cuda::kernels;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x)
    for (threadIdx.z = 0; threadIdx.z < block[2]; ++threadIdx.z)
    for (threadIdx.y = 0; threadIdx.y < block[1]; ++threadIdx.y)
    for (threadIdx.x = 0; threadIdx.x < block[0]; ++threadIdx.x)
        NAME(*static_cast<TYPE*>(given));
}
"""


def compile_kernels(compiler: str, source: str, folder: Path) -> Path:
    """Return a library that has NAME_run for each kernel, which runs all threads, and NAME_bytes, of its argument."""
    kernels = re.findall(r"__global__ void (\w+)\((\w+) \w+\)", source)
    assert len(kernels) == source.count("__global__")
    after = [AFTER.replace("NAME", name).replace("TYPE", argument) for name, argument in kernels]
    program, library = folder / "kernels.cpp", folder / "libkernels.so"
    program.write_text(BEFORE + source + "".join(after))
    # Nothing of the C++ library is used, so a C compiler links it.
    options = ["-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-O2", "-fno-exceptions", "-fno-rtti"]
    command = [compiler, *options, "-shared", "-fPIC", "-o", str(library), str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    if "cc1plus" in done.stderr:
        pytest.skip("needs a compiler of C++ for the kernels")
    assert done.returncode == 0, done.stderr
    return library
