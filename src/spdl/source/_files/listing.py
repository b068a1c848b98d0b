"""The files below a folder of a store: listed once, and kept for others."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._cache_folder import only_one
from spdl._replaced import replaced
from spdl.io import FormatError, load_npz, save_npz
from spdl.io._common.mapped_file import check_regular
from spdl.store import Entry

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from spdl.store import Store

__all__ = ["Listing", "list_once"]

_VERSION = 1


class Listing:
    """Paths, sizes and etags, which take little more memory than their text.

    Args:
        arrays: What `arrays` returned.

    Raises:
        KeyError, ValueError: If these are other arrays.
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
        """Return the listing of some entries, in their order."""
        listed = list(entries)
        arrays: dict[str, Any] = {"version": np.array(_VERSION), "prefix": _bytes_of([prefix])}
        arrays["sizes"] = np.array([entry.size for entry in listed], np.int64)
        for name, texts in (("paths", [each.path for each in listed]), ("etags", [each.etag or "" for each in listed])):
            encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
            arrays[name] = np.frombuffer(b"".join(encoded), np.uint8)
            arrays[f"{name}_end"] = np.fromiter(accumulate(map(len, encoded)), np.int64, len(encoded))
        return Listing(arrays)

    @property
    def prefix(self) -> str:
        """The folder that was listed."""
        found: bytes = self._arrays["prefix"].tobytes()
        return found.decode("utf-8", "surrogateescape")

    def arrays(self) -> dict[str, Any]:
        """Return the arrays that it consists of."""
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

    Of several processes that begin at once, one lists, and the others wait.

    Raises:
        FormatError: If the manifest is none, is damaged, or is of another folder.
        OSError: If the store cannot be listed, or the manifest not be written.
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
    remedy = "Remove it to have the store listed anew"
    try:
        check_regular(file)
        listing = Listing(load_npz(file, verify=True))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{str(file)!r} is no manifest, or is damaged: {error}. {remedy}") from error
    if listing.prefix != prefix:
        raise FormatError(f"{str(file)!r} is the manifest of {listing.prefix!r}, not of {prefix!r}. {remedy}")
    return listing


def _bytes_of(texts: list[str]) -> Any:
    return np.frombuffer("".join(texts).encode("utf-8", "surrogateescape"), np.uint8)
