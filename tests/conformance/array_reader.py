"""Arrays and archives as we read them, by each of the calls for them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spdl.io import FormatError, TarFile, iter_tarfile, load_npy, load_npz, load_wav
from tests.conformance.array_oracle import SOUND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.conformance.reading import Arrays

# The first bytes of gzip, bzip2, xz and zstd.
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")

# What a member of a zip archive is told to be if its bytes could be read and are no array.
_NO_ARRAY = "this is not npy data"


def npy_path(path: Path, _: bytes) -> Arrays:
    """View the file."""
    return {"array": load_npy(path)}


def npy_bytes(_: Path, data: bytes) -> Arrays:
    """Copy from bytes."""
    return {"array": load_npy(data, copy=True)}


def npz_members(path: Path, _: bytes) -> Arrays:
    """Read all members one by one, with their checksums."""
    arrays: Arrays = {}
    archive = load_npz(path, verify=True)
    for name in archive.files:
        try:
            arrays[name] = archive[name]
        except FormatError as error:
            arrays[name] = error
    return arrays


def wav_path(path: Path, _: bytes) -> Arrays:
    """View the file."""
    return {"samples": load_wav(path)}


def tar_path(path: Path, _: bytes) -> Arrays:
    """View the file, or decompress it."""
    return _contents(iter_tarfile(path))


def tar_stream(path: Path, _: bytes) -> Arrays:
    """Read the file as a stream."""
    with path.open("rb") as file:
        return _contents(iter_tarfile(file))


def tar_bytes(_: Path, data: bytes) -> Arrays:
    """View the bytes, or decompress them."""
    return _contents(iter_tarfile(data))


def tar_index(path: Path, data: bytes) -> Arrays | None:
    """Read the members through an index, which compressed archives cannot have."""
    if data.startswith(_COMPRESSED):
        return None
    with tempfile.TemporaryDirectory() as folder:
        # The index is written beside the archive.
        archive = Path(folder) / "archive.tar"
        archive.symlink_to(path)
        return _contents(TarFile(archive))


def zip_members(path: Path, _: bytes) -> Arrays:
    """Find out which members can be read."""
    members: Arrays = {}
    archive = load_npz(path, verify=True)
    for name in archive.files:
        try:
            archive[name]
        except FormatError as error:
            members[name] = SOUND if _NO_ARRAY in str(error) else error
        else:
            members[name] = SOUND
    return members


def _contents(members: Iterable[tuple[str, memoryview | bytes]]) -> Arrays:
    return {f"{index}: {name}": np.frombuffer(content, np.uint8) for index, (name, content) in enumerate(members)}
