"""Files of folders and stores, one record each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdl._check import check_instance, check_path, check_str, refuse
from spdl._files import only_one, replaced
from spdl.io import FormatError, load_npz, save_npz
from spdl.io._shared import check_regular
from spdl.source._labelled.lists import check_extensions, fingerprint
from spdl.source._place import listed_folder
from spdl.source._prefetch import read_together
from spdl.source._record_source import Records
from spdl.store import Entry, LocalStore, Store, StoreError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_VERSION = 1


class Listing:
    """Paths, sizes and etags, which take little more memory than their text.

    They are made of what `arrays` returned; KeyError or ValueError if these are other arrays.
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        if int(arrays["version"]) != _VERSION:
            raise ValueError(f"it has version {int(arrays['version'])}, and this package reads version {_VERSION}")
        self._arrays = dict(arrays)
        self.sizes = arrays["sizes"]
        self._texts = {name: arrays[name].tobytes() for name in ("paths", "etags")}
        self._ends = {name: arrays[f"{name}_end"] for name in ("paths", "etags")}
        if any(ends.shape != self.sizes.shape or ends.dtype != "i8" for ends in self._ends.values()):
            raise ValueError("its columns are not as long as each other")

    @staticmethod
    def of(prefix: str, entries: Iterable[Entry]) -> Listing:
        listed = list(entries)
        arrays: dict[str, Any] = {"version": np.array(_VERSION), "prefix": np.frombuffer(_encode(prefix), np.uint8)}
        arrays["sizes"] = np.array([entry.size for entry in listed], np.int64)
        for name, texts in (("paths", [each.path for each in listed]), ("etags", [each.etag or "" for each in listed])):
            encoded = [*map(_encode, texts)]
            arrays[name] = np.frombuffer(b"".join(encoded), np.uint8)
            arrays[f"{name}_end"] = np.fromiter(accumulate(map(len, encoded)), np.int64, len(encoded))
        return Listing(arrays)

    @property
    def prefix(self) -> str:
        found: bytes = self._arrays["prefix"].tobytes()
        return found.decode("utf-8", "surrogateescape")

    def arrays(self) -> dict[str, Any]:
        return self._arrays

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, position: int) -> Entry:
        return Entry(self._text("paths", position), int(self.sizes[position]), self._text("etags", position) or None)

    def _text(self, name: str, position: int) -> str:
        ends = self._ends[name]
        begin = int(ends[position - 1]) if position else 0
        text: bytes = self._texts[name][begin : int(ends[position])]
        return text.decode("utf-8", "surrogateescape")


def list_once(store: Store, prefix: str, manifest: str | os.PathLike[str] | None) -> Listing:
    """Return the objects below a folder, from a manifest if there is one. Without one, it is written.

    If several processes begin at once, one lists, and the others wait. FormatError if the manifest is invalid.
    """
    if manifest is None:
        return Listing.of(prefix, store.list(prefix))
    file = Path(manifest)
    if not file.exists():
        with only_one(file):
            if not file.exists():
                listing = Listing.of(prefix, store.list(prefix))
                with replaced(file) as target:
                    save_npz(target, listing.arrays())
    remedy = "Remove it to list the store again"
    try:
        check_regular(file)
        listing = Listing(load_npz(file, verify=True))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{str(file)!r} is not a manifest, or is damaged: {error}. {remedy}") from error
    if listing.prefix != prefix:
        raise FormatError(f"{str(file)!r} is the manifest of {listing.prefix!r}, not of {prefix!r}. {remedy}")
    return listing


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_AHEAD = 1


class FileRecord(NamedTuple):
    """A file and what is in it.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import Files
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.txt").write_text("one")
        ...     Files(folder)[0]._replace(etag="...")
        FileRecord(data=b'one', path='a.txt', size=3, etag='...', index=0)
    """

    data: Buffer
    """Its content, a read-only buffer."""
    path: str
    """Its path below the folder or store."""
    size: int
    """The number of bytes."""
    etag: str | None
    """A text that changes with the content, or None if the store has none."""
    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """The position in the source."""


class Files(Records[FileRecord]):
    """The files below a folder, sorted by their paths: in any order, from this machine or a store.

    A record has the content and the listing's entry of it. A batch is read by `__getitems__` at once, by up to 32
    requests at a time.

    Listing millions of objects takes minutes. A manifest keeps what was listed: paths, sizes and etags. If its file is
    there, nothing is listed; if not, one process lists and writes it, and the others on the machine wait. So ranks and
    later runs have the same files in the same order, whatever is added later. Remove the file to list again.

    Args:
        root: The folder, or its URL. With a store it is a folder there, and ``""`` is all of it.
        store: The store of the folder, unless it is on this machine or named by a URL.
        extensions: The endings of names that count, in any case, such as ``(".jpg", ".png")``. None counts all.
        manifest: The file that keeps the listing. None lists each time.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the folder has no files.
        FormatError: If the manifest is of another folder, or damaged.
        OSError: If the folder cannot be listed or a file not be read; `spdl.store.StoreError` when a file is read that
            has another size than was listed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import Files
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("b.txt", "a.txt", "a.jpg"):
        ...         _ = Path(folder, name).write_text(name)
        ...     files = Files(folder, extensions=".txt")
        ...     [record.path for record in files], bytes(files[1].data)
        (['a.txt', 'b.txt'], b'b.txt')
    """

    _window = 32

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        store: Store | None = None,
        extensions: str | Iterable[str] | None = None,
        manifest: str | os.PathLike[str] | None = None,
    ) -> None:
        self._store: Store
        if store is None:
            check_path("root", root)
            place = listed_folder(os.fsdecode(root))
            # The store of a URL is the whole bucket.
            self._store = LocalStore(place.path) if place.store is None else place.store
            prefix = "" if place.store is None else place.path
        else:
            check_instance("store", store, Store, "a store, such as spdl.store.LocalStore, or None")
            self._store = store
            prefix = check_str("root", root)
        if manifest is not None:
            check_path("manifest", manifest)
        endings = check_extensions(extensions)
        self._listing = list_once(self._store, prefix, manifest)
        chosen = [
            number
            for number in range(len(self._listing))
            if endings is None or self._listing[number].path.lower().endswith(endings)
        ]
        self._chosen = np.array(chosen, np.int64)
        if not chosen:
            what = "files" if endings is None else f"files with the ending {', '.join(endings)}"
            refuse(ValueError, "root", f"a folder with {what} in it", root)

    @property
    def block_sizes(self) -> list[int]:
        """A new list of ones, since no two files lie together."""
        return [1] * len(self)

    def fingerprint(self) -> str:
        """Return a short text that says which files in which order these are, wherever the folder is."""
        skip = len(self._listing.prefix)

        def describe(index: int) -> str:
            entry = self._listing[int(self._chosen[index])]
            return f"{entry.path[skip:].lstrip('/')} {entry.size}"

        return fingerprint("Files", len(self), describe)

    def __len__(self) -> int:
        return len(self._chosen)

    def __repr__(self) -> str:
        return f"Files: {len(self)} of {self._listing.prefix or self._store!r}"

    def _read(self, positions: list[int]) -> list[FileRecord]:
        calls = [partial(self._read_one, position) for position in positions]
        return [call() for call in calls] if isinstance(self._store, LocalStore) else read_together(calls)

    def _read_one(self, position: int) -> FileRecord:
        entry = self._listing[int(self._chosen[position])]
        data = self._store.get(entry.path)
        size = memoryview(data).nbytes
        if size != entry.size:
            raise StoreError(
                f"{entry.path} in {self._store!r} has {size} bytes, and had {entry.size} when it was listed: list again"
            )
        return FileRecord(data, entry.path, entry.size, entry.etag, position)

    def _name(self, position: int) -> str | None:
        return self._listing[int(self._chosen[position])].path

    def _ahead(self) -> int:
        return 0 if isinstance(self._store, LocalStore) else _AHEAD
