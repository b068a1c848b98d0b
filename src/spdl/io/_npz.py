"""Archives of arrays in NumPy's .npz format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from spdl.io._array_source import ArraySource, resolve
from spdl.io._lazy import native

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_UNCOMPRESSED_BYTES = 1 << 30


class NpzFile(Mapping[str, Any]):
    """The arrays of an archive by their keys, as `load_npz` returns it.

    An array is read when it is asked for, and anew each time. A stored one is a view of the archive; a compressed one
    is inflated without the GIL and has memory of its own. Any number of threads may read at once.

    A key is the name of a member without ``.npy``; with it is accepted too. Keys that the archive does not have raise
    `KeyError`, members that are damaged or refused `FormatError`, which has their name.

    Attributes:
        files: The keys, in the order of the archive.
    """

    __slots__ = ("_archive", "files")

    def __init__(self, archive: native.NpzArchive) -> None:
        self._archive = archive
        self.files = archive.keys()

    def __getitem__(self, key: str) -> Array:
        return self._archive.get(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._archive.has(key)

    def __repr__(self) -> str:
        return f"NpzFile({', '.join(self.files)})"

    def load_many(
        self, keys: Iterable[str] | None = None, *, out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Read several arrays in one call, in which all that is to be inflated is inflated without the GIL.

        Args:
            keys: Which ones; None is all.
            out: Arrays to copy them into, by key. They need the same dtype and shape, and may be of any order; they
                are what is returned.

        Returns:
            The arrays by key.

        Raises:
            FormatError: If one of them is damaged or refused. Arrays of `out` may have been written to before.
            KeyError: If the archive, or `out`, lacks one of the keys.
            ValueError: If an array of `out` is read-only, or has another dtype or shape.

        Example:
            >>> file = io.BytesIO()
            >>> save_npz(file, {"image": np.zeros((4, 4)), "label": np.arange(3)}, compression="deflate")
            >>> load_npz(file.getvalue()).load_many(["label"], out={"label": np.empty(3, dtype=int)})
            {'label': array([0, 1, 2])}
        """
        wanted = self.files if keys is None else list(keys)
        arrays = self._archive.get_many(wanted)
        if out is None:
            return dict(zip(wanted, arrays, strict=True))
        targets = {key: out[key] for key in wanted}
        for key, array in zip(wanted, arrays, strict=True):
            _check_target(key, targets[key], array)
        for key, array in zip(wanted, arrays, strict=True):
            targets[key][...] = array
        return targets


def load_npz(
    data: ArraySource, *, max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES, verify: bool = False
) -> NpzFile:
    """Open the content of a .npz file, of which only the directory is read.

    Members may be stored, or compressed by deflate or zstd, and the archive may be zip64. Nothing is ever unpickled: an
    archive with a member that holds Python objects opens, and only that one is refused, when it is read.

    Args:
        data: The content: ``bytes``, ``bytearray``, ``memoryview``, ``mmap``, a one-dimensional uint8 array, or a path,
            of which the file is mapped into memory, read-only.
        max_uncompressed_bytes: How many bytes the compressed members may have together when they are inflated.
        verify: Whether to compare the checksum of stored members, too, for which all of their bytes are read. That of
            compressed ones always is compared.

    Returns:
        The arrays by key. Stored ones share memory with `data`, which they keep alive, and are writable if that is.

    Raises:
        FormatError: If this is no zip archive, if it is truncated or damaged, if members overlap, or if they inflate to
            more than `max_uncompressed_bytes`.
        OSError: If the file cannot be mapped.
        TypeError: If `data` is neither a path nor bytes.

    Example:
        >>> file = io.BytesIO()
        >>> save_npz(file, {"image": np.zeros((4, 4), np.uint8), "label": np.arange(3)})
        >>> arrays = load_npz(file.getvalue())
        >>> arrays.files
        ['image', 'label']
        >>> arrays["label"]
        array([0, 1, 2])
    """
    if type(data) is not bytes:
        data = resolve(data, "data")
    return NpzFile(native.NpzArchive(data, max_uncompressed_bytes, verify))


def _check_target(key: str, target: Array, array: Array) -> None:
    if target.dtype != array.dtype or target.shape != array.shape:
        msg = (
            f"`out[{key!r}]` must have the dtype {array.dtype} and the shape {array.shape} of the member, got "
            f"{target.dtype} and {target.shape}"
        )
        raise ValueError(msg)
    if not target.flags.writeable:
        msg = f"`out[{key!r}]` must be writable, got a read-only array"
        raise ValueError(msg)
