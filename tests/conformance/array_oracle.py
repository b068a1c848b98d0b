"""Arrays and archives as numpy, libsndfile and the standard library read them."""

from __future__ import annotations

import tarfile
import zipfile
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.reading import Arrays

_SAMPLES = {"PCM_16": "int16", "PCM_24": "int32", "PCM_32": "int32", "FLOAT": "float32", "DOUBLE": "float64"}

SOUND = np.array("sound")
"""Stands for a member whose bytes can be read."""


def read_npy(path: Path) -> Arrays:
    """Return the array, by numpy."""
    with path.open("rb") as file:
        return {"array": np.lib.format.read_array(file, allow_pickle=False)}


def read_npz(path: Path) -> Arrays:
    """Return the arrays by key, by numpy. A member of Python objects counts as refused."""
    arrays: Arrays = {}
    # numpy does not close a file that it opened itself if it is no archive.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        for name in archive.files:
            try:
                arrays[name] = np.asarray(archive[name])
            except ValueError as error:
                arrays[name] = error
    return arrays


def read_wav(path: Path) -> Arrays:
    """Return the samples (frames, channels), by libsndfile, in the type that they are stored in."""
    import soundfile  # noqa: PLC0415 - not all Pythons that run the tests have it.

    with soundfile.SoundFile(path) as sound:
        if sound.subtype == "PCM_U8":  # libsndfile makes 16 bits of them, around 0.
            return {"samples": ((sound.read(dtype="int16", always_2d=True) >> 8) + 128).astype(np.uint8)}
        return {"samples": sound.read(dtype=_SAMPLES.get(sound.subtype, "float64"), always_2d=True)}


def read_tar(path: Path) -> Arrays:
    """Return the contents of the regular files, in order, by the standard library."""
    members: Arrays = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isreg():
                content = archive.extractfile(member)
                assert content is not None
                data = content.read()
                if len(data) != member.size:
                    raise tarfile.ReadError(f"{member.name} ends after {len(data)} of {member.size} bytes")
                members[f"{len(members)}: {member.name}"] = np.frombuffer(data, np.uint8)
    return members


def read_zip(path: Path) -> Arrays:
    """Return which members can be read, by the standard library. Names are without ``.npy``, as numpy's are."""
    members: Arrays = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            try:
                archive.read(info)
            except Exception as error:  # noqa: BLE001 - whatever it is, this member cannot be read.
                members[name] = error
            else:
                members[name] = SOUND
    return members
