"""Our declarations of NVIDIA's interfaces are those of NVIDIA's headers: sizes, places of fields, values, parameters.

A wrong one would show on a machine with a GPU only. The headers are those of pip's nvidia-* packages (`pip install
--group cuda`) and, for video, of Debian's libffmpeg-nvenc-dev. `SPDL_TEST_CUDA_HEADERS` names other folders.
"""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCES = Path(__file__).with_name("real_headers")
NATIVE = Path(__file__).parents[3] / "native"

HEADERS = {
    "driver": ["cuda.h"],
    "nvjpeg": ["nvjpeg.h"],
    "nvrtc": ["nvrtc.h"],
    "nvcuvid": ["ffnvcodec/dynlink_cuviddec.h", "ffnvcodec/dynlink_nvcuvid.h"],
}

pytestmark = pytest.mark.skipif(not NATIVE.exists(), reason="needs the sources")


def folders() -> list[Path]:
    """Return the folders that may have headers of NVIDIA's."""
    spec = find_spec("nvidia")
    packages = [] if spec is None else [Path(place) for place in spec.submodule_search_locations or ()]
    found = [Path(place) for place in os.environ.get("SPDL_TEST_CUDA_HEADERS", "").split(os.pathsep) if place]
    for package in packages:
        found += sorted(package.glob("*/include"))
    return [*found, Path("/usr/local/cuda/include"), Path("/usr/include")]


@pytest.mark.parametrize("name", HEADERS)
def test_declarations_are_those_of_the_real_headers(name: str) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    places = folders()
    if not any((place / header).exists() for place in places for header in HEADERS[name]):
        package = "Debian's package libffmpeg-nvenc-dev" if name == "nvcuvid" else "`pip install --group cuda`"
        pytest.skip(f"needs {', '.join(HEADERS[name])}: {package}")
    include = [f"-isystem{place}" for place in places if place != Path("/usr/include") and place.exists()]
    done = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", f"-I{NATIVE}", *include, str(SOURCES / f"{name}.cpp")],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_wrong_declaration_is_found(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = tmp_path / "wrong.cpp"
    program.write_text(
        f'#include "{SOURCES}/alike.h"\n'
        "struct Ours { int (*call)(int, void*); int a; short b; };\n"
        "struct Theirs { int a; int b; };\n"
        "int theirs(int, unsigned long);\n"
        "SAME_FUNCTION(Ours, call, theirs);\n"
        "SAME_FIELD(Ours, b, Theirs, b);\n"
        "SAME_SIZE(Ours, Theirs);\n"
        "SAME_VALUE(1, 2);\n"
    )
    done = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", str(program)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.stderr.count("error: static assertion failed") + done.stderr.count("error: static_assert failed") == 4
