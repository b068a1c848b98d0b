"""One file: what the oracle and each of our ways make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tests.conformance import array_oracle, array_reader, image_oracle, image_reader
from tests.conformance.comparison import compare
from tests.conformance.formats import IMAGES
from tests.conformance.reading import Arrays, Reading, read

Oracle = Callable[[Path, bytes], Arrays]
Way = Callable[[Path, bytes], Arrays | None]
"""Reads a file (its path, its bytes). None if it is not meant to read this one."""


_SHOWN = 3


@dataclass(frozen=True)
class Outcome:
    """What became of one reading."""

    outcome: Literal["equal", "both refuse", "refused", "read", "different", "failed"]
    """equal: we gave what the oracle gave. both refuse: nobody reads it. refused: the oracle reads it, and we do not.
    read: we read it, and the oracle does not. different: we gave something else. failed: the process crashed, hung or
    used up its memory, or the error is none of those that the documentation promises.
    """
    ours: str = ""
    theirs: str = ""
    largest: float | None = None
    mean: float | None = None


@dataclass(frozen=True)
class Subject:
    """How files of a format are read."""

    oracle: Oracle
    ways: dict[str, Way]
    errors: tuple[str, ...]
    """The types of errors that the documentation promises."""
    parts: bool = False
    """Whether each way reads only a part of what the oracle reads."""


_IMAGE = Subject(
    lambda _, data: image_oracle.read_image(data),
    {
        "load_image": image_reader.load_path,
        "load_image_batch": image_reader.load_batch,
        "load_image_batch, resized": image_reader.load_resized,
    },
    ("RuntimeError", "LoadError"),
    parts=True,
)
_ERRORS = ("FormatError",)

SUBJECTS: dict[str, Subject] = dict.fromkeys(IMAGES, _IMAGE) | {
    "HEIC": replace(_IMAGE, oracle=lambda _, data: image_oracle.read_heic(data)),
    "npy": Subject(
        lambda path, _: array_oracle.read_npy(path),
        {"load_npy": array_reader.npy_path, "load_npy, copied": array_reader.npy_bytes},
        _ERRORS,
    ),
    "npz": Subject(lambda path, _: array_oracle.read_npz(path), {"load_npz": array_reader.npz_members}, _ERRORS),
    "wav": Subject(lambda path, _: array_oracle.read_wav(path), {"load_wav": array_reader.wav_path}, _ERRORS),
    "tar": Subject(
        lambda path, _: array_oracle.read_tar(path),
        {
            "iter_tarfile": array_reader.tar_path,
            "iter_tarfile, bytes": array_reader.tar_bytes,
            "iter_tarfile, stream": array_reader.tar_stream,
            "TarFile": array_reader.tar_index,
        },
        _ERRORS,
    ),
    "zip": Subject(lambda path, _: array_oracle.read_zip(path), {"load_npz": array_reader.zip_members}, _ERRORS),
}
"""By format."""


def examine(subject: Subject, path: Path, begin: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Read a file in all ways.

    Args:
        subject: How to read it.
        path: The file.
        begin: Called before each reading with what reads, so that a process that ends tells who ended it.

    Returns:
        For each way its ``outcome`` and, unless that is "equal", what we and the oracle gave (``ours``, ``theirs``),
        the ``largest`` difference and the ``mean``, or None.
    """
    data = path.read_bytes()
    begin("the oracle")
    theirs = read(lambda: subject.oracle(path, data))
    ways = {}
    for name, way in subject.ways.items():
        begin(name)
        ways[name] = asdict(_outcome(subject, _read(way, path, data), theirs))
    return ways


def _read(way: Way, path: Path, data: bytes) -> Reading:
    return read(lambda: way(path, data))


def _outcome(subject: Subject, ours: Reading, theirs: Reading) -> Outcome:
    if ours.refusal is not None:
        said, error = f"{type(ours.refusal).__name__}: {ours.refusal}", theirs.refusal
        if type(ours.refusal).__name__ not in subject.errors:
            return Outcome("failed", said, _summary(theirs))
        return Outcome("refused" if error is None else "both refuse", said, _summary(theirs))
    if ours.arrays is None:
        return Outcome("equal")
    if theirs.arrays is None:
        return Outcome("read", _summary(ours), _summary(theirs))
    expected = {name: theirs.arrays[name] for name in ours.arrays} if subject.parts else theirs.arrays
    difference = compare(ours.arrays, expected)
    if difference is None:
        return Outcome("equal")
    return Outcome(difference.kind, difference.ours, difference.theirs, difference.largest, difference.mean)


def _summary(reading: Reading) -> str:
    if reading.arrays is None:
        return f"{type(reading.refusal).__name__}: {reading.refusal}"
    shown = [
        f"{name}: {array if isinstance(array, Exception) else f'{array.dtype} {array.shape}'}"
        for name, array in list(reading.arrays.items())[:_SHOWN]
    ]
    return f"{len(reading.arrays)} arrays" if len(reading.arrays) > _SHOWN else ", ".join(shown) or "no arrays"
