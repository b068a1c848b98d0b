"""A store that keeps what was read from another one."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._check import check_instance, check_int, check_path, positive, refuse
from spdl.store._cache.disk_cache import DiskCache
from spdl.store._cache.memory_cache import MemoryCache
from spdl.store._protocol.checks import check_inside, check_object_path, check_prefix, check_ranges
from spdl.store._protocol.errors import StoreError, not_found
from spdl.store._protocol.store import Store
from spdl.store._reading.forks import renew_in_children

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from spdl.store._protocol.entry import Entry

__all__ = ["CacheStatistics", "CachedStore"]


class CacheStatistics(NamedTuple):
    """What a cache has counted since it was made, in this process. A range counts like an object.

    Example:
        >>> CacheStatistics(memory_hits=1, disk_hits=2, misses=1, uncached=0, memory_bytes=0).disk_hits
        2
    """

    memory_hits: int
    """What was found in memory."""
    disk_hits: int
    """What was found on disk."""
    misses: int
    """What was read from the store."""
    uncached: int
    """Misses that could not be kept, being too large, without room on the disk, or without an etag."""
    memory_bytes: int
    """The bytes that are in memory now."""


class CachedStore:
    """A store that keeps on disk, and in memory, what was read from another one.

    Threads and processes share the folder, also at the same time: each object is read once, and the others wait for it.
    A process may be killed at any moment. The folder never has more bytes than it may, but for one object, and
    at least 1 GiB of the disk is left free: what was not used for longest is removed.

    The version of an object, its ``etag``, is looked up once: in a listing that went through this store, or else by a
    request. So list what you are going to read. An object that changes later is noticed by a new `CachedStore`. Objects
    without ``etag`` are not kept. `close` the store inside yourself.

    Args:
        store: What is read from. Its repr has to name the place, as those of all stores here do.
        directory: The folder; it is made if it is missing. Use it for nothing else.
        max_bytes: How many bytes may be on disk.
        memory_bytes: How many bytes may be in memory, besides what the system keeps of the files. By default none.

    Raises:
        OSError: If the folder cannot be made.
        ValueError: If a number of bytes is negative, or the store has no repr of its own.

    Example:
        >>> import os, tempfile
        >>> from spdl.store import LocalStore
        >>> folder = tempfile.TemporaryDirectory()
        >>> with open(os.path.join(folder.name, "a.bin"), "wb") as file:
        ...     _ = file.write(b"0123456789")
        >>> store = CachedStore(LocalStore(folder.name), os.path.join(folder.name, "cache"), max_bytes=10**9)
        >>> bytes(store.get("a.bin")), bytes(store.get("a.bin"))
        (b'0123456789', b'0123456789')
        >>> store.statistics()
        CacheStatistics(memory_hits=0, disk_hits=1, misses=1, uncached=0, memory_bytes=0)
        >>> folder.cleanup()
    """

    def __init__(
        self, store: Store, directory: str | os.PathLike[str], max_bytes: int, *, memory_bytes: int = 0
    ) -> None:
        check_instance("store", store, Store, "a store: an object with the methods size, list, get and get_ranges")
        check_path("directory", directory)
        self._store = store
        self._directory = os.path.abspath(directory)  # noqa: PTH100
        self._max_bytes = positive("max_bytes", max_bytes)
        self._memory_bytes = check_int("memory_bytes", memory_bytes, least=0)
        self._place = repr(store)
        if " at 0x" in self._place:
            refuse(ValueError, "store", "a store whose repr names its place", store, "Give its class a __repr__.")
        self._disk = DiskCache(self._directory, self._max_bytes)
        self._renew()
        renew_in_children(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._memory = MemoryCache(self._memory_bytes)
        self._entries: dict[str, Entry] = {}
        self._counts = {"memory_hits": 0, "disk_hits": 0, "misses": 0, "uncached": 0}

    def __repr__(self) -> str:
        return f"CachedStore({self._place}, {self._directory!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self._store, self._directory, self._max_bytes, self._memory_bytes)

    def size(self, path: str) -> int:
        """Return the number of bytes of an object.

        Args:
            path: Which object.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If the store does not say.
        """
        return self._entry(check_object_path(path)).size

    def list(self, prefix: str) -> Iterator[Entry]:
        """Return an iterator over the objects at or below a path, which asks the store, and remembers their versions.

        Args:
            prefix: A folder or an object; ``""`` is the whole store.

        Raises:
            StoreError: If the store cannot be listed.
        """
        return self._list(check_prefix(prefix))

    def _list(self, prefix: str) -> Iterator[Entry]:
        for entry in self._store.list(prefix):
            self._entries[entry.path] = entry
            yield entry

    def get(self, path: str) -> Buffer:
        """Return the content of an object.

        Args:
            path: Which object.

        Returns:
            A read-only view. Other callers may be given the same memory.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If it cannot be read.
        """
        entry = self._entry(check_object_path(path))
        if entry.etag is None:
            self._add("misses", 1)
            self._add("uncached", 1)
            return self._store.get(path)
        key = self._key(entry)
        found = self._find(key, entry.size)
        if found is not None:
            return found
        with self._disk.alone([key]):
            found = self._find(key, entry.size)  # Somebody else may have read it meanwhile.
            if found is not None:
                return found
            content = memoryview(self._store.get(path)).toreadonly()
            self._check_size(entry, content.nbytes)
            self._keep(key, content)
        return content

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        """Return parts of an object, each of which is kept. Those that are missing are read by one call.

        Args:
            path: Which object.
            starts: Where each part begins, in bytes. In any order; parts may overlap.
            lengths: How many bytes each part has.

        Returns:
            A read-only view for each part. Other callers may be given the same memory.

        Raises:
            FileNotFoundError: If there is no such object.
            StoreError: If it ends before one of the parts does, or cannot be read.
            ValueError: If a number is negative, or there are not as many lengths as starts.
        """
        starts, lengths = check_ranges(starts, lengths)
        entry = self._entry(check_object_path(path))
        check_inside(path, repr(self), starts, lengths, entry.size)
        if entry.etag is None:
            self._add("misses", len(starts))
            self._add("uncached", len(starts))
            return self._store.get_ranges(path, starts, lengths)
        parts: dict[tuple[int, int], Buffer] = {(start, 0): b"" for start in starts}
        keys = {each: self._key(entry, *each) for each in zip(starts, lengths, strict=True) if each[1]}
        missing = self._find_parts(entry, keys, parts)
        if missing:
            with self._disk.alone(keys[each] for each in missing):
                missing = self._find_parts(entry, {each: keys[each] for each in missing}, parts)
                if missing:
                    found = self._store.get_ranges(path, [s for s, _ in missing], [n for _, n in missing])
                    for each, part in zip(missing, found, strict=True):
                        parts[each] = memoryview(part).toreadonly()
                        self._keep(keys[each], memoryview(part).toreadonly())
        return [parts[each] for each in zip(starts, lengths, strict=True)]

    def _find_parts(
        self, entry: Entry, keys: dict[tuple[int, int], str], parts: dict[tuple[int, int], Buffer]
    ) -> builtins.list[tuple[int, int]]:
        """Put the parts that are here among the others, and return those that are not."""
        whole, missing = self._key(entry), []
        for (start, length), key in keys.items():
            found = self._find(key, length)
            if found is None and (data := self._disk.read(whole, start, length, entry.size)) is not None:
                self._add("disk_hits", 1)
                found = memoryview(data)
            if found is None:
                missing.append((start, length))
            else:
                parts[start, length] = found
        return missing

    def statistics(self) -> CacheStatistics:
        """Return what was counted so far. What the store inside has counted is in its own statistics."""
        with self._lock:
            return CacheStatistics(**self._counts, memory_bytes=self._memory.bytes)

    def _add(self, counter: str, count: int) -> None:
        with self._lock:
            self._counts[counter] += count

    def _entry(self, path: str) -> Entry:
        entry = self._entries.get(path)
        if entry is None:
            for entry in self._store.list(path):  # noqa: B007 - the first is enough.
                break
            if entry is None or entry.path != path:
                raise not_found(path, repr(self))
            self._entries[path] = entry
        return entry

    def _key(self, entry: Entry, start: int = 0, length: int = -1) -> str:
        text = "\0".join((self._place, entry.path, str(entry.etag), str(entry.size), str(start), str(length)))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def _find(self, key: str, size: int) -> memoryview | None:
        found = self._memory.get(key)
        if found is not None:
            self._add("memory_hits", 1)
            return found
        data = self._disk.read(key, 0, size, size)
        if data is None:
            return None
        self._add("disk_hits", 1)
        content = memoryview(data)
        self._memory.put(key, content)
        return content

    def _keep(self, key: str, content: memoryview) -> None:
        self._add("misses", 1)
        if not self._disk.write(key, content):
            self._add("uncached", 1)
        self._memory.put(key, content)

    def _check_size(self, entry: Entry, size: int) -> None:
        if size != entry.size:
            del self._entries[entry.path]
            raise StoreError(
                f"{entry.path} in {self!r}: it has {size} bytes, but had {entry.size} when listed: it has changed"
            )


def _make(store: Store, directory: str, max_bytes: int, memory_bytes: int) -> CachedStore:
    return CachedStore(store, directory, max_bytes, memory_bytes=memory_bytes)
