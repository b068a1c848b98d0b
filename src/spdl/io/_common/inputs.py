"""Inputs: a path, a URL of a store, bytes in memory, or an open file."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeGuard, runtime_checkable

from spdl._check import refuse, refuse_lost_slash, refuse_set, shown
from spdl._counted import bytes_of_thread, note_read
from spdl._processes import RenewedLock
from spdl.io._common.errors import FormatError
from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.store import ObjectFile, Store

# What `spdl.store.split_url` takes for one, also URLs of fsspec such as `simplecache::s3://bucket`.
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*::)*[a-zA-Z][a-zA-Z0-9+.-]*://")
_MOST_STORES = 32
_MOST_AT_ONCE = 32
MAX_THREADS = 1024
"""The most threads that a batch may be loaded by."""

_lock = RenewedLock()  # Stores begin again by themselves in a forked process.
_stores: OrderedDict[str, Store] = OrderedDict()
"""The stores that URLs have named, those used last at the end. They have connections, and have learnt of the server."""


def is_url(value: object) -> TypeGuard[str]:
    """Return whether this is a URL such as ``https://host/name``. One that lost a slash in a Path is a ValueError."""
    # Only few paths have that, and every input is looked at.
    if not isinstance(value, str) or ":/" not in value:
        return False
    refuse_lost_slash("path", value)
    return _URL.match(value) is not None


def url_of(value: object) -> str | None:
    """Return the URL of an input as messages show it, without what may be a secret; None if it is something else."""
    if not is_url(value):
        return None
    return shown(str(value))


def fetch(url: str) -> Any:
    """Return what a URL names: the content of an object, read-only, or the path of a file of this machine.

    Raises:
        FileNotFoundError: If there is no such object.
        ModuleNotFoundError: If a package is missing that reads such URLs; the message has the command to install it.
        OSError: If it cannot be read.
        ValueError: If the URL is invalid.
    """
    store, path = _find(url)
    return path if store is None else memoryview(store.get(path))


def fetch_all(inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, str]]:
    """Return inputs with what URLs name in their place, read at the same time, and why some could not be read.

    Those that could not be read are empty, by their index. The bytes count as read by the calling thread.
    """
    urls = [index for index, each in enumerate(inputs) if is_url(each)]
    if not urls:
        return tuple(inputs), {}
    content = list(inputs)
    failed: dict[int, str] = {}

    def read(index: int) -> None:
        try:
            content[index] = fetch(inputs[index])
        except (OSError, ValueError) as error:
            content[index] = b""
            failed[index] = str(error)

    def read_elsewhere(index: int) -> int:
        read(index)
        return bytes_of_thread()

    if len(urls) == 1:
        read(urls[0])
    else:
        with ThreadPoolExecutor(min(len(urls), _MOST_AT_ONCE), "spdl-fetch") as executor:
            try:
                note_read(sum(executor.map(read_elsewhere, urls)))
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                raise
    return tuple(content), failed


def check_is_object(url: str) -> None:
    """Refuse the URL of a folder of a store: without its slash it would be the URL of another object."""
    if url.partition("?")[0].endswith("/") and url[:5].lower() != "file:":
        raise ValueError(f"{shown(url)} is the URL of a folder: name an object, whose URL does not end with '/'")


def open_url(url: str) -> ObjectFile | str:
    """Return the object at a URL as a file that requests only what is read; or a path, as `fetch` does."""
    from spdl.store import ObjectFile  # noqa: PLC0415 - only for those who have a URL.

    store, path = _find(url)
    return path if store is None else ObjectFile(store, path)


def _find(url: str) -> tuple[Store | None, str]:
    from spdl.store import open_store, split_url  # noqa: PLC0415 - only for those who have a URL.

    root, path = split_url(url)
    if root.startswith("file:"):
        return None, f"/{path}"
    check_is_object(url)
    with _lock:
        store = _stores.get(root)
        if store is not None:
            _stores.move_to_end(root)
            return store, path
    store = open_store(root)
    with _lock:
        kept = _stores.setdefault(root, store)
        forgotten = _stores.popitem(last=False) if len(_stores) > _MOST_STORES else None
    del forgotten  # Without the lock: it may close connections.
    return kept, path


@runtime_checkable
class Readable(Protocol):
    """Anything with a method ``read`` that returns up to `size` bytes: a binary file, a pipe, a response."""

    def read(self, size: int = -1, /) -> bytes: ...


def resolve(value: Any, argument: str, index: int | None = None, *, files: bool) -> Any:
    """Return an input as a path, which is a ``str``, or as an object that shows its bytes by the buffer protocol.

    The object at a URL is read whole.

    Raises:
        OSError: If there is nothing at the URL, or it cannot be read.
        TypeError: If it is neither a path, nor bytes, nor an accepted file.
    """
    found = value if type(value) is str else _resolve(value, argument, index, files=files)
    return fetch(found) if is_url(found) else found


def resolve_media(value: Any, name: str | None) -> tuple[Any, str | None]:
    """Return an audio, image or video input as `resolve` does, and its name for messages if it has one.

    Raises:
        RuntimeError: If there is nothing at the URL, or it cannot be read.
        TypeError: If it is neither a path, nor bytes, nor an accepted file.
    """
    url = url_of(value)
    if url is None:
        return resolve(value, "src", files=True), name
    with unreadable(name or url):
        return resolve(value, "src", files=True), name or url


@contextmanager
def unreadable(name: str) -> Iterator[None]:
    """Raise RuntimeError in place of OSError, as for all media that cannot be read."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"{name}: {error}") from error


def resolve_all(given: Sequence[Any], *, files: bool) -> tuple[tuple[Any, ...], dict[int, str]]:
    """Return all inputs of a batch, as `resolve` does, and why some URLs could not be read, by their index.

    In the place of those are empty bytes. What URLs name is read at the same time.
    """
    inputs = [each if type(each) is str else _resolve(each, "srcs", i, files=files) for i, each in enumerate(given)]
    return fetch_all(inputs)


def _resolve(value: Any, argument: str, index: int | None, *, files: bool) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return value
    # Quicker than asking for an os.PathLike.
    if isinstance(value, str) or hasattr(type(value), "__fspath__"):
        # A name that is not UTF-8 keeps its bytes as surrogate escapes.
        return os.fsdecode(value)
    name = argument if index is None else f"{argument}[{index}]"
    if is_bytes(value, name):
        return value
    if files and isinstance(value, Readable):
        return _read(value, name)
    array: Any = value.__array__() if hasattr(value, "__array__") else None
    if not is_bytes(array, name):
        accepted = (
            "a path (str or os.PathLike) or bytes (bytes, bytearray, memoryview, mmap, one-dimensional uint8 array)"
        )
        refuse(TypeError, name, f"{accepted} or a binary file" if files else accepted, value, _explain(value))
    return array


def is_bytes(value: Any, name: str) -> bool:
    """Return whether an object shows its memory; a TypeError if that holds no bytes that can be read in place."""
    try:
        view = memoryview(value)
    except (BufferError, TypeError, ValueError):
        return False
    with view:
        if view.ndim != 1 or view.itemsize != 1:
            found = f"It has {view.ndim} dimensions of {view.itemsize}-byte elements."
            refuse(TypeError, name, "a one-dimensional array of single bytes", value, found)
        if not view.c_contiguous:
            remedy = "It is read in place, so bytes with gaps or in reverse need a copy: pass bytes(array)."
            refuse(TypeError, name, "contiguous", value, remedy)
    return True


def is_single(value: object) -> bool:
    """Return whether this is one input, even if it is iterable: a path has characters, a file has lines."""
    return isinstance(value, (str, bytes, bytearray, memoryview, os.PathLike, Readable))


def list_inputs(srcs: Iterable[Any], function: str) -> tuple[Any, ...]:
    # Lists come first, since a protocol takes long to look up.
    if not isinstance(srcs, (list, tuple)) and (is_single(srcs) or not isinstance(srcs, Iterable)):
        remedy = f"For a batch of one, pass a list, as in `{function}([src], ...)`."
        refuse(TypeError, "srcs", "an iterable of inputs", srcs, remedy)
    refuse_set("srcs", srcs)
    # Up to the first that is surely none: a range may be longer than memory.
    inputs = srcs if isinstance(srcs, (list, tuple)) else _until_number(srcs)
    inputs = tuple(inputs)
    if not inputs:
        refuse(ValueError, "srcs", "at least one input", inputs)
    return inputs


def _until_number(srcs: Iterable[Any]) -> Iterator[Any]:
    for src in srcs:
        yield src
        if isinstance(src, (int, float)):
            return


def _read(file: Readable, name: str) -> bytes:
    try:
        content = file.read()
    except Exception as error:
        error.add_note(f"spdl.io was reading `{name}`")
        raise
    if not is_bytes(content, name):
        refuse_text_file(name, file, content)
    return content


def refuse_text_file(name: str, file: object, piece: object) -> NoReturn:
    """Raise the TypeError of a file whose ``read`` returned something else than bytes."""
    refuse(TypeError, name, "a file opened in binary mode", file, f"Its read() returned {type(piece).__name__}.")


def _explain(value: Any) -> str:
    """Return Python's reason why bytes cannot be read: the mapping was closed, say, or the view released."""
    try:
        memoryview(value).release()
    except ValueError as error:
        return f"Python says: {error}."
    except (BufferError, TypeError):
        pass
    return ""


def map_file(path: str | os.PathLike[str]) -> native.MappedFile | bytes:
    """Map a file into memory, read-only. A file that cannot be mapped, such as a pipe, is read instead.

    A pointer of Git LFS in the place of the file is a FormatError.
    """
    try:
        # Python's own mapping keeps a descriptor: a program may have more arrays than files that it may open.
        return native.map_file(os.fsdecode(path))
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
    except FormatError as error:
        name = os.fsdecode(path)
        raise FormatError(f"{name!r} cannot be read: {error}", path=name) from None
    with open(path, "rb") as file:  # noqa: PTH123 - half the time of Path.open.
        return file.read()


def check_fetched(begin: bytes, name: str, path: str) -> None:
    """Raise FormatError if an object of that name begins as a pointer of Git LFS does."""
    said = native.describe_unfetched(begin)
    if said is not None:
        raise FormatError(f"{name} cannot be read: {said}", path=path)


def map_regular(path: str | os.PathLike[str]) -> native.MappedFile | bytes:
    """Map a file as `map_file` does; any part may be asked for at any time.

    A pipe, a socket or a device is a FormatError: opening one could wait forever.
    """
    check_regular(path)
    return map_file(path)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise FormatError if a path names a pipe, a socket or a device; see `map_regular`."""
    mode = os.stat(path).st_mode  # noqa: PTH116 - takes what os.fspath takes.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        name = os.fsdecode(path)
        kind = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode), "a device")
        msg = f"{name!r} is {kind}, and only of a file can any part be read: write its content to a file"
        raise FormatError(msg, path=name)
