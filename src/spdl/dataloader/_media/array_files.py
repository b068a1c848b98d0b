"""Loads files of arrays, or rows of arrays, into one array for each name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spdl._check import refuse
from spdl.dataloader._media.array_rows import ArrayRow
from spdl.dataloader._media.columns import to_array
from spdl.io import FormatError, load_npy, load_npz_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ACCEPTED", "kind_of", "load_array_files"]

_Kind: TypeAlias = Literal["npy", "npz", "row", "arrays"]

ACCEPTED = "a path or the bytes of an npz or npy file, or arrays by their names"

_NPY = b"\x93NUMPY"


def load_array_files(files: Sequence[Any], data: str, num_threads: int) -> dict[str, Any]:
    """Return an array (N, ...) with memory of its own for each name.

    Args:
        files: Paths or bytes of npz or npy files, rows, or arrays by their names.
        data: The name for the array of an npy file.
        num_threads: How many threads may share the work.

    Raises:
        FormatError: If a file is damaged, or differs from another in names, dtypes or shapes.
        OSError: If a file cannot be mapped.
        TypeError: If one is none of these.
    """
    kinds = {kind_of(file) for file in files}
    if kinds == {"npz"}:
        return load_npz_batch(files, num_threads=num_threads)
    if kinds == {"row"}:
        return _take_rows(files)
    return _stack([_load_one(file, data) for file in files])


def kind_of(file: Any) -> _Kind:
    """Return what a file is.

    Raises:
        TypeError: If it is none.
    """
    if isinstance(file, ArrayRow):
        return "row"
    if isinstance(file, Mapping):
        return "arrays"
    if isinstance(file, str | os.PathLike):
        return "npy" if os.fsdecode(file).lower().endswith(".npy") else "npz"
    try:
        return "npy" if bytes(memoryview(file).cast("B")[: len(_NPY)]) == _NPY else "npz"
    except TypeError:
        refuse(TypeError, "file", ACCEPTED, file)


def _load_one(file: Any, data: str) -> dict[str, Any]:
    kind = kind_of(file)
    if kind == "npy":
        return {data: load_npy(file)}
    if kind == "npz":
        return {name: array[0] for name, array in load_npz_batch([file]).items()}
    arrays = {str(name): to_array(value) for name, value in file.items()}
    for name, array in arrays.items():
        if array is None or array.dtype.hasobject:
            raise FormatError(f"{name!r} is no array of numbers: {type(file[name]).__name__}")
    return arrays


def _take_rows(rows: Sequence[ArrayRow]) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(id(row.arrays), []).append(place)
    if len(places) == 1:
        positions = np.fromiter((row.position for row in rows), np.int64, len(rows))
        return {name: _native(array[positions]) for name, array in rows[0].arrays.items()}
    found = {
        name: np.empty((len(rows), *array.shape[1:]), _native_type(array)) for name, array in rows[0].arrays.items()
    }
    for own in places.values():
        positions = np.fromiter((rows[place].position for place in own), np.int64, len(own))
        for name, array in rows[own[0]].arrays.items():
            found[name][own] = array[positions]
    return found


def _stack(samples: list[dict[str, Any]]) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415

    first = _shapes(samples[0])
    for sample in samples:
        if _shapes(sample) != first:
            raise FormatError(f"the arrays differ: {_shapes(sample)} and {first}")
    found = {name: np.empty((len(samples), *array.shape), _native_type(array)) for name, array in samples[0].items()}
    for place, sample in enumerate(samples):
        for name, array in sample.items():
            found[name][place] = array
    return found


def _shapes(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: (str(_native_type(array)), array.shape) for name, array in sorted(sample.items())}


def _native_type(array: Any) -> Any:
    """Return the dtype in this machine's order of bytes, as other libraries want it."""
    return array.dtype.newbyteorder("=")


def _native(array: Any) -> Any:
    return array.astype(_native_type(array), copy=False)
