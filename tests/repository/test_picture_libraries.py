"""The libraries for pictures in a build from source: the pinned ones, or the system's if those cannot be had."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spdl.io.utils import get_entropy_decoder, get_libjpeg_turbo_version

ROOT = Path(__file__).parents[2]
CHOICE = ROOT / "native" / "picture_libraries.cmake"
# A virtual environment's own commands may not be on PATH.
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
CMAKE = shutil.which("cmake", path=PATH)

needs_cmake = pytest.mark.skipif(
    CMAKE is None or not CHOICE.exists() or shutil.which("pkg-config") is None or shutil.which("c++") is None,
    reason="needs the sources, and what builds them",
)

PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(choice LANGUAGES C CXX)
find_package(PkgConfig REQUIRED)
include({CHOICE})
message(STATUS "entropy decoder of our own: ${{SPDL_PINNED_LIBRARIES}}")
"""


def configure(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeLists.txt").write_text(PROJECT)
    command = [CMAKE or "cmake", "-S", str(folder), "-B", str(folder / "build"), *options]
    variables = {**os.environ, "PATH": PATH, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


def offline(folder: Path) -> dict[str, str]:
    """Return variables under which nothing is in the cache, and nothing can be downloaded."""
    commands = folder / "commands"
    commands.mkdir()
    (commands / "python3").write_text("#!/bin/sh\necho 'no network here' >&2\nexit 1\n")
    (commands / "python3").chmod(0o755)
    return {"SPDL_BUNDLE_CACHE": str(folder / "cache"), "PATH": f"{commands}{os.pathsep}{PATH}"}


SYSTEMS = ("libjpeg >= 2.1", "libwebp", "libwebpdemux", "libavif >= 0.11", "libopenjp2 >= 2.5", "libtiff-4 >= 4.5")


def has_systems_libraries() -> bool:
    return subprocess.run(["pkg-config", "--exists", *SYSTEMS], check=False).returncode == 0


def test_the_package_says_what_it_is_built_on() -> None:
    pinned = get_libjpeg_turbo_version() == (3, 1, 2)
    assert get_entropy_decoder() in {"own", "libjpeg"}
    # Nobody but our own build puts the decoder in.
    assert pinned or get_entropy_decoder() == "libjpeg"


@needs_cmake
def test_without_a_network_the_build_is_on_the_systems_libraries_and_says_so(tmp_path: Path) -> None:
    done = configure(tmp_path, **offline(tmp_path))
    if has_systems_libraries():
        assert done.returncode == 0, done.stderr
        assert "entropy decoder of our own: OFF" in done.stdout
    words = " ".join(done.stderr.split())
    assert "building on the system's libraries" in words
    assert re.search(r"cannot download (dav1d|libjpeg-turbo)", words)
    assert "no network here" in words


@needs_cmake
def test_the_pinned_libraries_can_be_insisted_on(tmp_path: Path) -> None:
    done = configure(tmp_path, "-DSPDL_PICTURE_LIBRARIES=PINNED", **offline(tmp_path))
    assert done.returncode != 0
    assert "cannot build the libraries that decode pictures" in " ".join(done.stderr.split())
    assert "no network here" in done.stderr


@needs_cmake
def test_the_systems_libraries_can_be_insisted_on(tmp_path: Path) -> None:
    done = configure(tmp_path, "-DSPDL_PICTURE_LIBRARIES=SYSTEM", **offline(tmp_path))
    assert ("entropy decoder of our own: OFF" in done.stdout) == has_systems_libraries()
    assert "pinned" not in done.stderr
    assert not (tmp_path / "cache").exists()


@needs_cmake
def test_a_misspelt_choice_is_an_error(tmp_path: Path) -> None:
    done = configure(tmp_path, "-DSPDL_PICTURE_LIBRARIES=ON")
    assert done.returncode != 0
    assert "SPDL_PICTURE_LIBRARIES must be AUTO, PINNED, SYSTEM or a folder, got ON" in " ".join(done.stderr.split())


@needs_cmake
@pytest.mark.timeout(300)  # It is built if only the script that does so has changed.
@pytest.mark.skipif(get_entropy_decoder() != "own", reason="the pinned libraries could not be built here")
def test_the_pinned_libraries_are_the_usual_choice(tmp_path: Path) -> None:
    done = configure(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "entropy decoder of our own: ON" in done.stdout
    (folder,) = (line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("-- libraries that"))
    pinned = Path(folder)
    assert (pinned / "include" / "jpegint.h").exists()
    assert {file.name for file in (pinned / "notices" / "libjpeg-turbo").iterdir()} == {"LICENSE.md", "README.ijg"}
