"""The environments of the contenders of `images.py`. Each contender has its own, made once and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spdl._files import cache_folder
from spdl.cli._common.machine import PipError, pip
from spdl.cli._demo.turn import (
    TORCH,
    PeerUnavailable,
    install_all,
    made_environment,
    reference_environment,
    torch_environment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spdl.cli._common.console import Console

    Command = tuple[str, ...]

ROOT = Path(__file__).parent.parent
OWN, WHEEL, FREE_THREADED = "own", "wheel", "wheel-3.13t"

OPENCV = ("opencv-python-headless==5.0.0.93", "numpy")
DALI = ("nvidia-dali-cuda130==2.4.0", "numpy")
PILLOW_SIMD = ("pillow-simd==12.1.1.post0", "numpy")
TORCHVISION = ("torchvision==0.28.0", *TORCH)
FFCV = ("ffcv==1.0.2", *TORCH, "numba", "opencv-python-headless", "pandas", "psutil", "tqdm", "setuptools",
        "assertpy", "fastargs", "pytorch-pfn-extras", "terminaltables")  # fmt: skip


def find_environments(
    names: Sequence[str], console: Console, makers: Mapping[str, Callable[[Console], Command]] | None = None
) -> tuple[dict[str, Command], dict[str, str]]:
    """Return the command of each environment's interpreter, and the reasons why others are missing.

    Args:
        names: The environments.
        console: The console for messages about slow steps.
        makers: The function that makes each environment. None stands for `MAKERS`.
    """
    found: dict[str, Command] = {}
    absent: dict[str, str] = {}
    for name in dict.fromkeys(names):
        try:
            found[name] = (makers or MAKERS)[name](console)
        except PeerUnavailable as reason:
            absent[name] = str(reason)
    return found, absent


def peer(
    name: str, requirements: Sequence[str], install: Callable[[Path, Sequence[str]], object] | None = None
) -> Callable[[Console], Command]:
    # Isolated, because a PYTHONPATH that leads to our modules would let them in.
    return lambda console: (str(made_environment(name, requirements, console, install=install)), "-I")


def _install_torchvision(python: Path, requirements: Sequence[str]) -> None:
    """Install torchvision beside PyTorch for CPUs. By itself, it would ask for the build with CUDA."""
    install_all(python, requirements[1:])
    pip("--python", str(python), "install", "--no-deps", requirements[0])


def _install_pillow_simd(python: Path, requirements: Sequence[str]) -> None:
    """Compile Pillow-SIMD as its authors advise. Without the option it uses only SSE4."""
    with _environment(CC=f"{os.environ.get('CC', 'cc')} -mavx2"):
        # From its cache, pip would take a wheel that somebody compiled without the option.
        options = ("--no-cache-dir", "--no-binary=pillow-simd")
        pip("--python", str(python), "install", *options, *requirements, timeout=3600)


def _install_ffcv(python: Path, requirements: Sequence[str]) -> None:
    """Compile FFCV against OpenCV's core and imgproc. It asks for all of OpenCV but uses only these two."""
    headers = Path("/usr/include/opencv4")
    if not all((headers / "opencv2" / name).exists() for name in ("core.hpp", "imgproc.hpp")):
        raise PeerUnavailable("there is no OpenCV to compile it with: apt-get install libopencv-imgproc-dev")
    whole = python.parent.parent / "opencv"
    (whole / "opencv2").mkdir(parents=True)
    includes = "#include <opencv2/core.hpp>\n#include <opencv2/imgproc.hpp>\n"
    (whole / "opencv2" / "opencv.hpp").write_text(includes)
    (whole / "opencv4.pc").write_text(
        "Name: opencv4\nDescription: core and imgproc\nVersion: 4\n"
        f"Cflags: -I{whole} -I{headers}\nLibs: -lopencv_core -lopencv_imgproc\n"
    )
    install_all(python, requirements[1:])
    with _environment(PKG_CONFIG_PATH=str(whole)):
        pip("--python", str(python), "install", "--no-deps", "--no-build-isolation", requirements[0])


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _our_wheel(console: Console) -> Command:
    """Return an environment of this Python with our self-contained wheel."""
    return _with_wheel(Path(sys.executable), WHEEL, console)


def _our_free_threaded_wheel(console: Console) -> Command:
    """Return an environment with our wheel, of the free-threaded Python that wheels are built for."""
    bundle = Path(os.environ.get("SPDL_BUNDLE_CACHE", cache_folder() / "bundle"))
    built = [it for it in bundle.glob("python-3.13t-*") if "tsan" not in it.name and (it / "complete").exists()]
    if not built:
        raise PeerUnavailable("there is no free-threaded Python 3.13 in the cache: scripts/bundle/python_313t.sh")
    return _with_wheel(built[0] / "bin" / "python3.13t", FREE_THREADED, console)


def _with_wheel(base: Path, name: str, console: Console) -> Command:
    folder = ROOT / "build" / "bench" / name
    python, whole = folder / "bin" / "python", folder / "whole"
    wanted = _digest()
    if not (python.exists() and whole.exists() and whole.read_text() == wanted):
        console.print(f"building our wheel into {folder.relative_to(ROOT)}")
        shutil.rmtree(folder, ignore_errors=True)
        _run(base, "-m", "venv", "--without-pip", folder)
        built = _run(ROOT / "scripts" / "bundle" / "wheel.sh", base, folder).splitlines()[-1]
        try:
            pip("--python", str(python), "install", "--only-binary=:all:", built, "numpy")
        except PipError as error:
            raise PeerUnavailable(f"pip cannot install our wheel: {error}") from error
        whole.write_text(wanted)
    return (str(python), "-I")


def _run(*command: Path | str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        words = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise PeerUnavailable(f"our wheel cannot be built: {words}")
    return done.stdout


def _digest() -> str:
    """Return a digest of everything that a wheel is made from."""
    files = [ROOT / "CMakeLists.txt", ROOT / "pyproject.toml"]
    for folder in ("native", "src", "scripts/bundle"):
        files += [it for it in (ROOT / folder).rglob("*") if it.is_file() and "__pycache__" not in it.parts]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


MAKERS: dict[str, Callable[[Console], Command]] = {
    OWN: lambda _: (sys.executable,),
    WHEEL: _our_wheel,
    FREE_THREADED: _our_free_threaded_wheel,
    "reference": lambda console: reference_environment(console).command,
    "torch": lambda console: torch_environment(console, install=True).command,
    "torchvision": peer("torchvision", TORCHVISION, _install_torchvision),
    "opencv": peer("opencv", OPENCV),
    "dali": peer("dali", DALI),
    "ffcv": peer("ffcv", FFCV, _install_ffcv),
    "pillow-simd": peer("pillow-simd", PILLOW_SIMD, _install_pillow_simd),
}
