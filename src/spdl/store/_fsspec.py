"""Every file system that the package fsspec knows."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from spdl._check import check_str, without_user
from spdl._not_here import require
from spdl.store._blocks import cut_out, merge_ranges
from spdl.store._identity import SecretAddress, named_servers, secrets_of, without_secrets
from spdl.store._store import (
    Entry,
    Store,
    StoreError,
    check_inside,
    check_object_path,
    check_prefix,
    check_ranges,
    not_found,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


_GAP = 1 << 20
_BLOCK = 1 << 23
# Modules that come with a distribution of another name.
_DISTRIBUTIONS = {
    "smbclient": "smbprotocol",
    "lakefs_spec": "lakefs-spec",
    "gdrive_fsspec": "gdrive_fs",
    "libarchive": "libarchive-c",
    "fsspec_xrootd": "fsspec-xrootd",
    "distributed": "'dask[distributed]'",
}
_VERSIONS = ("ETag", "etag", "md5", "checksum", "mtime", "LastModified", "last_modified", "created")


class FsspecStore(Store):
    """A folder of any file system that the package fsspec knows, such as ``hf://``, ``sftp://`` or ``gcs://``.

    How requests are repeated is up to fsspec's file systems, as is what may be set. It has no counters. Listings
    are sorted by the paths.
    ``pip install 'spdl-turbo[fsspec]'`` installs fsspec; a file system may need another package, which its error names.

    Args:
        url: The folder.
        options: The file system's options, such as ``{"anon": True}`` of S3.

    Raises:
        ModuleNotFoundError: If fsspec, or a package that the file system needs, is not installed.
        StoreError: If fsspec does not know it.

    Example:
        >>> def open_dataset(name: str) -> FsspecStore:
        ...     return FsspecStore(f"hf://datasets/{name}", options={"token": False})
    """

    def __init__(self, url: str, *, options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(options or {})
        self._place = SecretAddress(check_str("url", url), secrets_of(options))
        self._process = 0
        with self._place.hiding():
            self._open()

    def _open(self) -> Any:
        """Return the file system, in a forked process a new one: it has threads that do not survive a fork."""
        if self._process != os.getpid():
            require("fsspec", f"reading {self._place}")
            core = importlib.import_module("fsspec.core")
            try:
                self._files, root = core.url_to_fs(
                    self._place.url, **self._options, **({"skip_instance_cache": True} if self._process else {})
                )
            except ImportError as error:
                raise self._lacking(error) from error
            except Exception as error:
                raise StoreError(f"{self!r}: {' '.join(str(error).split())[:500]}") from error
            self._base = root.rstrip("/") + "/" if root else ""
            self._process = os.getpid()
        return self._files

    def _lacking(self, error: ImportError) -> ImportError:
        cause: BaseException | None = error
        while cause is not None and getattr(cause, "name", None) is None:
            cause = cause.__cause__
        name = str(getattr(cause, "name", "") or "").partition(".")[0]
        if not isinstance(cause, ModuleNotFoundError) or not name or importlib.util.find_spec(name) is not None:
            return error  # It is there, but lacks something itself.
        return ModuleNotFoundError(
            f"reading {self._place} needs the package {name}: pip install 'spdl-turbo[fsspec]' "
            f"{_DISTRIBUTIONS.get(name, name)}",
            name=name,
        )

    def __repr__(self) -> str:
        return f"FsspecStore({self._place!r})"

    def identity(self) -> str:
        """Return what tells this store from others; see `LocalStore.identity`.

        It has the URL and the options, also those that fsspec is configured with, but for those whose names say that
        they are secret.
        """
        options = without_secrets(self._open().storage_options)
        return repr((without_user(self._place.url).rstrip("/"), options, named_servers({})))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self._place.url, options=self._options), ()

    # The methods are documented at `Store`.
    def size(self, path: str) -> int:
        check_object_path(path)
        with self._named(path):
            info = self._open().info(self._base + path)
            if info["type"] != "file":
                raise FileNotFoundError
            if info["size"] is None:
                raise OSError("the file system does not say how many bytes it has")
        return int(info["size"])

    def list(self, prefix: str) -> Iterator[Entry]:
        return self._list(check_prefix(prefix))

    def _list(self, prefix: str) -> Iterator[Entry]:
        try:
            with self._named(prefix or "the list of all"):
                files = self._open()
                files.invalidate_cache()  # It would go on to say what was there before.
                found = files.find((self._base + prefix).rstrip("/") or "/", detail=True)
        except FileNotFoundError:
            return
        base = self._base.lstrip("/")
        for name in sorted(found):
            if name.endswith("/"):  # Some programs mark folders so, with an object that cannot be named.
                continue
            info = found[name]
            version = next((str(info[key]) for key in _VERSIONS if info.get(key) is not None), None)
            yield Entry(name.lstrip("/").removeprefix(base), int(info["size"]), version)

    def get(self, path: str) -> Buffer:
        check_object_path(path)
        with self._named(path):
            content: bytes = self._open().cat_file(self._base + path)
        return content

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        check_object_path(path)
        starts, lengths = check_ranges(starts, lengths)
        blocks = merge_ranges(starts, lengths, gap=_GAP, most=_BLOCK)
        if not blocks:
            self.size(path)  # So that a missing file is noticed.
            return cut_out([], [], starts, lengths)
        begins, ends = [block.start for block in blocks], [block.start + block.length for block in blocks]
        try:
            with self._named(path):
                contents = self._open().cat_ranges([self._base + path] * len(blocks), begins, ends, on_error="raise")
        except StoreError:
            check_inside(path, repr(self), starts, lengths, self.size(path))
            raise
        for block, content in zip(blocks, contents, strict=True):
            if len(content) != block.length:
                check_inside(path, repr(self), starts, lengths, self.size(path))
                raise StoreError(f"{path} in {self!r}: {len(content)} bytes came instead of {block.length}")
        return cut_out(blocks, contents, starts, lengths)

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        with self._place.hiding():
            try:
                yield
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                raise not_found(path, repr(self)) from None
            except (ImportError, StoreError):
                raise
            except Exception as error:  # Each file system has its own errors.
                raise StoreError(f"{path} in {self!r}: {str(error) or type(error).__name__}") from error
