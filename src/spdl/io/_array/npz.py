"""Archives of arrays in NumPy's .npz format, singly, in batches, and written."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, check_instance, check_int, check_iterable, escaped, refuse
from spdl.io._array.array_io import ArrayInput, map_input, name_file, opened
from spdl.io._array.npy import npy_parts
from spdl.io._common.errors import FormatError
from spdl.io._common.inputs import MAX_THREADS, list_inputs
from spdl.io._common.native import native

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from spdl.io._array.array_io import ArrayTarget, Write

    Array = np.ndarray[Any, Any]

MAX_UNCOMPRESSED_BYTES = 1 << 30


class NpzFile(Mapping[str, Any]):
    """The arrays of an archive by their keys, as `load_npz` returns them.

    Each access reads the array again. A stored array is a view of the archive. A compressed one is inflated without the
    GIL and has its own memory. Any number of threads may read at once.

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
            TypeError: If `keys` is a single key, or `out` holds something that is not an array.
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
            path, whose file is mapped into memory, read-only, and must not be truncated while it is used; see
            `load_npy`.
        max_uncompressed_bytes: The most bytes that the compressed members may have together when inflated, 1 GiB by
            default. An archive whose directory says that it has more is refused.
        verify: Whether to check stored members against their checksums too, which reads all of their bytes. Compressed
            members are always checked.

    Returns:
        The arrays by key. Stored ones share memory with `data`, keep it alive, and are writable if it is.

    Raises:
        FormatError: If this is not a zip archive, if it is truncated or damaged, if members overlap, or if they inflate
            to more than `max_uncompressed_bytes`.
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
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    try:
        target = out[key]
    except KeyError:
        raise KeyError(f"`out` has no array {key!r} to fill") from None
    name = f"out[{key!r}]"
    check_instance(name, target, np.ndarray, "a NumPy array")
    if target.dtype != array.dtype or target.shape != array.shape:
        accepted = f"of dtype {array.dtype} and shape {array.shape}, as the member is"
        refuse(ValueError, name, accepted, (target.dtype, target.shape))
    if not target.flags.writeable:
        refuse(ValueError, name, "writable", target, "It is read-only.")
    return target


Compression: TypeAlias = Literal["deflate", "zstd"]

# Elements begin at multiples of this in the file, so that views of a mapped archive are aligned for any instruction.
_ALIGNMENT = 64

_METHODS = {None: 0, "deflate": 8, "zstd": 93}
_VERSIONS = {0: 20, 8: 20, 93: 63}
_ZIP64_VERSION = 45
_UTF8_NAME = 0x800

# The first day that the format knows, so that the same arrays give the same bytes.
_TIME, _DATE = 0, (1 << 5) | 1

_IN_64 = 0xFFFFFFFF
_COUNT_IN_64 = 0xFFFF
_MAX_NAME = 0xFFFF
_ATTRIBUTES = 0o600 << 16

# The id that zipalign uses for its padding.
_PADDING_ID = 0xD935


class _ZipEntry(NamedTuple):
    name: bytes
    flags: int
    method: int
    crc: int
    compressed_size: int
    size: int
    offset: int

    def fields(self, *, wide: bool) -> bytes:
        """Return the fields that the local header and the directory have in common."""
        version = max(_VERSIONS[self.method], _ZIP64_VERSION if wide else 0)
        sizes = (_IN_64, _IN_64) if wide else (self.compressed_size, self.size)
        return struct.pack("<HHHHHIII", version, self.flags, self.method, _TIME, _DATE, self.crc, *sizes)

    @property
    def wide(self) -> bool:
        return max(self.size, self.compressed_size) >= _IN_64

    def local_header(self) -> bytes:
        extra = struct.pack("<HHQQ", 1, 16, self.size, self.compressed_size) if self.wide else b""
        if self.method == 0:
            least = 6
            padding = -(self.offset + 30 + len(self.name) + len(extra) + least) % _ALIGNMENT
            extra += struct.pack("<HHH", _PADDING_ID, 2 + padding, _ALIGNMENT) + bytes(padding)
        lengths = struct.pack("<HH", len(self.name), len(extra))
        return b"PK\3\4" + self.fields(wide=self.wide) + lengths + self.name + extra

    def directory_entry(self) -> bytes:
        far = self.offset >= _IN_64
        wide = [self.size, self.compressed_size] if self.wide else []
        wide += [self.offset] if far else []
        extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        rest = struct.pack("<HHHHHII", len(self.name), len(extra), 0, 0, 0, _ATTRIBUTES, _IN_64 if far else self.offset)
        made_by = struct.pack("<H", 3 << 8 | _ZIP64_VERSION)
        return b"PK\1\2" + made_by + self.fields(wide=self.wide) + rest + self.name + extra


def save_npz(dst: ArrayTarget, arrays: Mapping[str, ArrayLike], *, compression: Compression | None = None) -> None:
    """Write arrays as a .npz file. ``numpy.load`` reads it too, zstd from Python 3.14 on.

    Compression runs without the GIL. The elements of stored arrays begin at multiples of 64 bytes in the file, so views
    of a mapped archive are aligned. The same arrays give the same bytes.

    Args:
        dst: A path or a file opened for writing in binary mode, which need not be seekable. Unlike ``numpy.savez``,
            this appends nothing to the path. An existing file is replaced when the new one is complete, so arrays that
            are views of it keep their values.
        arrays: The arrays by key, of any shape and dtype except ``object``.
        compression: None stores the arrays uncompressed, which loads fastest. ``"deflate"`` makes the archive smaller
            if the data allows it, and any zip program reads it. ``"zstd"`` inflates faster, unless the data compresses
            to next to nothing.

    Raises:
        OSError: If the file cannot be written, or, to replace a file, its folder.
        TypeError: If an array holds Python objects, which would have to be pickled, a key is not a str, or `dst` is
            neither a path nor a file.
        ValueError: If `compression` is unknown, or a key is empty or too long.

    Example:
        >>> file = io.BytesIO()
        >>> save_npz(file, {"image": np.zeros((4, 4), np.uint8), "label": np.arange(3)}, compression="deflate")
        >>> np.load(io.BytesIO(file.getvalue()))["label"]
        array([0, 1, 2])
    """
    check_choice("compression", compression, (None, *get_args(Compression)))
    # Check everything before writing anything.
    parts = {_name(key): npy_parts(array, f"arrays[{key!r}]") for key, array in arrays.items()}
    with opened(dst) as write:
        offset = 0
        members = []
        for name, (header, payload) in parts.items():
            content: tuple[bytes | memoryview, ...] = (header, payload)
            if compression is not None:
                content = ((native.deflate if compression == "deflate" else native.zstd)(header, payload),)
            packed = sum(map(len, content))
            flags = 0 if name.isascii() else _UTF8_NAME
            size = len(header) + len(payload)
            member = _ZipEntry(name, flags, _METHODS[compression], native.crc32(header, payload), packed, size, offset)
            local_header = member.local_header()
            write(local_header)
            for part in content:
                write(part)
            members.append(member)
            offset += len(local_header) + packed
        _write_directory(write, members, offset)


def _name(key: object) -> bytes:
    if not isinstance(key, str):
        refuse(TypeError, "arrays.keys()", "str", key)
    name = f"{key}.npy".encode()
    if not key or "\0" in key or len(name) > _MAX_NAME:
        refuse(ValueError, "arrays.keys()", "of 1 to 65531 bytes and without null characters", key)
    return name


def _write_directory(write: Write, members: list[_ZipEntry], offset: int) -> None:
    directory = b"".join(member.directory_entry() for member in members)
    write(directory)
    count, size = len(members), len(directory)
    if count >= _COUNT_IN_64 or max(size, offset) >= _IN_64:
        version = 3 << 8 | _ZIP64_VERSION
        write(
            struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, version, _ZIP64_VERSION, 0, 0, count, count, size, offset)
            + struct.pack("<4sIQI", b"PK\6\7", 0, offset + size, 1)
        )
    counts = (min(count, _COUNT_IN_64),) * 2
    write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, *counts, min(size, _IN_64), min(offset, _IN_64), 0))


# How native messages name an archive.
_WHICH = re.compile(r"srcs\[(\d+)\]")


def load_npz_batch(
    srcs: Iterable[ArrayInput],
    *,
    num_threads: int = 1,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
    verify: bool = False,
) -> dict[str, np.ndarray[Any, Any]]:
    """Load .npz files with the same members into one array for each key.

    Each member is copied or inflated straight into its row. The GIL is released for the whole batch.

    Args:
        srcs: The archives, as bytes or paths; see `load_npz`. They must have the same keys, and for each key arrays of
            the same dtype, shape and memory order.
        num_threads: How many threads inflate, including the calling one.
        max_uncompressed_bytes, verify: As for `load_npz`, for each archive; the first is a number of bytes.

    Returns:
        For each key an array (N, ...) with its own memory, whose row `i` comes from ``srcs[i]``. Arrays in Fortran
        order keep that order within their row.

    Raises:
        FormatError: If an archive is damaged or refused, or differs from the first. The message has its index, the
            member, and its path if it has one.
        OSError: If a file cannot be mapped.
        TypeError: If `srcs` is a single input, an input is neither a path nor bytes, or a number is not an int.
        ValueError: If `srcs` is empty, `num_threads` is out of range, or `max_uncompressed_bytes` is negative.

    Example:
        >>> file = io.BytesIO()
        >>> save_npz(file, {"image": np.zeros((4, 5), np.uint8), "label": np.array(7)})
        >>> batch = load_npz_batch([file.getvalue()] * 3)
        >>> batch["image"].shape, batch["label"]
        ((3, 4, 5), array([7, 7, 7]))
    """
    given = list_inputs(srcs, "load_npz_batch")
    threads = check_int("num_threads", num_threads, least=1, most=MAX_THREADS)
    budget = to_budget(max_uncompressed_bytes)
    inputs = [map_input(each, "srcs", index) for index, each in enumerate(given)]
    try:
        return native.load_npz_batch(inputs, threads, budget, verify)
    except FormatError as error:
        if which := _WHICH.match(str(error)):
            name_file(error, given[int(which[1])])
        raise
