"""Archives of arrays in NumPy's .npz format."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from spdl._check import check_instance, check_int, check_iterable, refuse
from spdl._shown import escaped
from spdl.io._array.array_input import ArrayInput, map_input, name_file
from spdl.io._common.format_error import FormatError
from spdl.io._common.native import native

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_UNCOMPRESSED_BYTES = 1 << 30


class NpzFile(Mapping[str, Any]):
    """The arrays of an archive by their keys, as `load_npz` returns them.

    Each access reads the array anew. A stored array is a view of the archive. A compressed one is inflated without the
    GIL and has memory of its own. Any number of threads may read at once.

    A key is the name of a member, with or without ``.npy``. An unknown key raises `KeyError`. A member that is damaged
    or refused raises `FormatError`, which names the member and the file.

    Attributes:
        files: The keys, in the order of the archive.
    """

    __slots__ = ("_archive", "_data", "files")

    def __init__(self, archive: native.NpzArchive, data: ArrayInput) -> None:
        self._archive = archive
        self._data = data
        self.files = archive.keys()

    def __getitem__(self, key: str) -> Array:
        try:
            return self._archive.get(key)
        except FormatError as error:
            name_file(error, self._data)
            raise

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __contains__(self, key: object) -> bool:
        return self._archive.has(key)

    def __repr__(self) -> str:
        return escaped(f"NpzFile({', '.join(self.files)})")

    def load_many(
        self, keys: Iterable[str] | None = None, *, out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Read several arrays in one call. All compressed ones are inflated without the GIL.

        Args:
            keys: The keys of the arrays; None reads all.
            out: Arrays to copy them into, by key. These must have the same dtype and shape, may have any memory order,
                and are returned.

        Returns:
            The arrays by key.

        Raises:
            FormatError: If a member is damaged or refused. Arrays of `out` may already have been written to.
            KeyError: If the archive or `out` lacks one of the keys.
            TypeError: If `keys` is a single key, or `out` holds something that is no array.
            ValueError: If an array of `out` is read-only, or has another dtype or shape.

        Example:
            >>> file = io.BytesIO()
            >>> save_npz(file, {"image": np.zeros((4, 4)), "label": np.arange(3)}, compression="deflate")
            >>> load_npz(file.getvalue()).load_many(["label"], out={"label": np.empty(3, dtype=int)})
            {'label': array([0, 1, 2])}
        """
        if isinstance(keys, str):
            refuse(TypeError, "keys", "an iterable of keys", keys, f"For one array pass a list, as in [{keys!r}].")
        if keys is not None:
            check_iterable("keys", keys, "an iterable of keys or None")
        wanted = self.files if keys is None else list(keys)
        try:
            arrays = dict(zip(wanted, self._archive.get_many(wanted), strict=True))
        except FormatError as error:
            name_file(error, self._data)
            raise
        if out is None:
            return arrays
        targets = {key: _target(key, out, array) for key, array in arrays.items()}
        for key, array in arrays.items():
            targets[key][...] = array
        return targets


def load_npz(
    data: ArrayInput, *, max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES, verify: bool = False
) -> NpzFile:
    """Open the content of a .npz file. Only the directory is read.

    Members may be stored, or compressed by deflate or zstd. The archive may be zip64. Zeros may follow it, and up to 64
    KiB of anything else. Nothing is ever unpickled: an archive with a member that holds Python objects opens, and only
    reading that member fails.

    Args:
        data: The content (``bytes``, ``bytearray``, ``memoryview``, ``mmap`` or a one-dimensional uint8 array) or a
            path, whose file is mapped into memory, read-only, and must not be truncated meanwhile; see `load_npy`.
        max_uncompressed_bytes: The most bytes that the compressed members may have together when inflated, 1 GiB by
            default. An archive whose directory says that it has more is refused.
        verify: Whether to check stored members against their checksums too, which reads all of their bytes. Compressed
            members are always checked.

    Returns:
        The arrays by key. Stored ones share memory with `data`, keep it alive, and are writable if it is.

    Raises:
        FormatError: If this is no zip archive, if it is truncated or damaged, if members overlap, or if they inflate to
            more than `max_uncompressed_bytes`.
        OSError: If the file cannot be mapped.
        TypeError: If `data` is neither a path nor bytes, or `max_uncompressed_bytes` no int.
        ValueError: If `max_uncompressed_bytes` is negative.

    Example:
        >>> file = io.BytesIO()
        >>> save_npz(file, {"image": np.zeros((4, 4), np.uint8), "label": np.arange(3)})
        >>> arrays = load_npz(file.getvalue())
        >>> arrays.files
        ['image', 'label']
        >>> arrays["label"]
        array([0, 1, 2])
    """
    content = data if type(data) is bytes else map_input(data, "data")
    if max_uncompressed_bytes is not MAX_UNCOMPRESSED_BYTES:
        max_uncompressed_bytes = to_budget(max_uncompressed_bytes)
    try:
        archive = native.NpzArchive(content, max_uncompressed_bytes, verify)
    except FormatError as error:
        name_file(error, data)
        raise
    return NpzFile(archive, data)


def to_budget(max_uncompressed_bytes: int) -> int:
    """Check a number of bytes, and return it, at most as large as memory can be."""
    return min(check_int("max_uncompressed_bytes", max_uncompressed_bytes, least=0), sys.maxsize)


def _target(key: str, out: Mapping[str, Array], array: Array) -> Array:
    """Return the array to fill, after checking that it fits."""
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    try:
        target = out[key]
    except KeyError:
        msg = f"`out` has no array {key!r} to fill"
        raise KeyError(msg) from None
    name = f"out[{key!r}]"
    check_instance(name, target, np.ndarray, "a NumPy array")
    if target.dtype != array.dtype or target.shape != array.shape:
        accepted = f"of dtype {array.dtype} and shape {array.shape}, as the member is"
        refuse(ValueError, name, accepted, (target.dtype, target.shape))
    if not target.flags.writeable:
        refuse(ValueError, name, "writable", target, "It is read-only.")
    return target
