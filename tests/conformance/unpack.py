"""The files of interest in an archive."""

from __future__ import annotations

import binascii
import hashlib
import io
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from tests.conformance.formats import format_of
from tests.io.kept import kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.packages import Package

_KEY_LENGTH = 12


def unpack(package: Package, archive: Path, folder: Path) -> Path:
    """Return the folder with the files of interest, which is below `folder`. Unpack them first if it is not there."""
    target = folder / f"{package.name}-{_key(package)}"

    def make(making: Path) -> None:
        for outdated in folder.glob(f"{package.name}-{'[0-9a-f]' * _KEY_LENGTH}"):
            shutil.rmtree(outdated)
        making.mkdir()
        for name, content in _contents(archive):
            if package.wants(name) and format_of(name, content) is not None:
                path = making / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    return kept(target, make)


def _key(package: Package) -> str:
    """Return what changes if the folder would get other files."""
    rules = [Path(__file__), Path(__file__).with_name("formats.py")]
    parts = [repr(package).encode(), *(path.read_bytes() for path in rules)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:_KEY_LENGTH]


def _contents(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the paths below the top folder and the contents of regular files. Decode those that are uuencoded."""
    for name, content in _members(archive):
        parts = PurePosixPath(name).parts[1:]
        if not parts or ".." in parts:
            continue
        path = PurePosixPath(*parts)
        if path.suffix == ".uu":
            yield str(path.with_suffix("")), _decoded(content)
        else:
            yield str(path), content


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the paths and contents of regular files."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            yield from ((info.filename, zipped.read(info)) for info in zipped.infolist() if not info.is_dir())
    elif archive.suffix == ".deb":
        command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
        tar = io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout)
        with tarfile.open(fileobj=tar) as packed:
            # The paths begin with ./, which is no folder.
            yield from ((f"top/{name}", content) for name, content in _tar_members(packed))
    else:
        with tarfile.open(archive) as packed:
            yield from _tar_members(packed)


def _tar_members(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in tar:
        if member.isreg():
            content = tar.extractfile(member)
            assert content is not None
            yield member.name.removeprefix("./"), content.read()


def _decoded(text: bytes) -> bytes:
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(b"begin "):
            break
    content = bytearray()
    for line in lines:
        if line.strip() in (b"end", b"`", b""):
            break
        try:
            content += binascii.a2b_uu(line)
        except binascii.Error:
            # Some encoders write more than the length at the line's beginning asks for.
            content += binascii.a2b_uu(line[: (((line[0] - 32) & 63) * 4 + 5) // 3])
    return bytes(content)
