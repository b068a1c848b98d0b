"""A store that keeps what was read from another one."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl._check import check_instance, check_int, check_path, positive, refuse
from spdl._counted import show_counters
from spdl._processes import renew_in_children
from spdl.store._disk_cache import DiskCache
from spdl.store._store import (
    CheckedStore,
    Entry,
    Spans,
    Store,
    StoreError,
    VersionedStore,
    check_inside,
    identity_of,
    not_found,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


_REMEMBERED = 1 << 18
"""Objects whose versions are remembered. Each takes about 400 bytes, so these are 100 MB."""
_REPETITIONS = 3
"""How often a server has to repeat other names for a version than those of its listing."""
_Part: TypeAlias = tuple[int, int]
"""Where a part begins, and how many bytes it has."""
_WHOLE = (0, -1)


class CacheStatistics(NamedTuple):
    """The counts of a cache since it was made, in this process. A range counts like an object.

    Example:
        >>> CacheStatistics(memory_hits=1, disk_hits=2, misses=1, uncached=0, memory_bytes=0).disk_hits
        2
    """

    memory_hits: int
    """The bytes found in memory."""
    disk_hits: int
    """The bytes found on disk."""
    misses: int
    """The bytes read from the store."""
    uncached: int
    """Misses that could not be kept, being too large, without room on the disk, or without an etag."""
    memory_bytes: int
    """The bytes that are in memory now."""


class CachedStore(CheckedStore):
    """A store that keeps on disk, and in memory, what was read from another one.

    Threads and processes share the folder, also at the same time: each object is read once, and the others wait for it.
    A process may be killed at any moment. The folder never has more bytes than it may, but for one object, and
    at least 1 GiB of the disk is left free: the least recently used files are removed.

    The files are for the user alone to read (0600, in folders of 0700), and have checksums, which are compared when a
    process first reads them: damaged files are read from the store again. If the folder cannot be written to, or the
    disk fails, there is one warning, and reading continues without it.

    The version of an object, its ``etag``, is looked up once: in a listing that went through this store, or else by a
    request. So list what you are going to read. All that is given afterwards is of that version: what was kept is known
    by it, and what is read from the store is compared with it. If the object has changed since, reading a part that
    is not cached is a `StoreError`, and the next call looks it up again. Cached parts are returned without a look at
    the store: so use a new `CachedStore`, or list again, if objects change. Objects without ``etag`` are not kept. The
    versions of the 262,144 objects that were used last are remembered: another one is looked up again.

    A custom store is asked once more after each miss, whether the object is still the same. `close` the store
    inside yourself.

    Args:
        store: The store to read from. A custom store says by a method ``identity``, or by its repr, which place it
            is: the cache of one place is used for no other.
        directory: The folder; it is made if it is missing. Use it for nothing else, and let only those write to it
            whom you trust: its content is taken for the store's.
        max_bytes: How many bytes may be on disk, with the checksums: four bytes for each 64 KiB of an object.
        memory_bytes: How many bytes may be in memory, in addition to the system's cache of files. By default none.

    Raises:
        OSError: If there is something else than a folder.
        ValueError: If a number of bytes is out of its range, or the store has only the default repr.

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
        if " at 0x" in repr(store):
            refuse(ValueError, "store", "a store whose repr names its place", store, "Give its class a __repr__.")
        self._place = identity_of(store)
        self._disk = DiskCache(self._directory, self._max_bytes)
        self._renew()
        renew_in_children(self)
        show_counters(self, repr(self))

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._memory = _MemoryCache(self._memory_bytes)
        # The versions that are given, and the keys of those that were asked for. Those used last are at the end.
        self._known: OrderedDict[str, tuple[Entry, str | None]] = OrderedDict()
        self._names_agree = False
        self._counts = {"memory_hits": 0, "disk_hits": 0, "misses": 0, "uncached": 0}

    def __repr__(self) -> str:
        return f"CachedStore({self._store!r}, {self._directory!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        made = self._store, self._directory, self._max_bytes
        return partial(type(self), *made, memory_bytes=self._memory_bytes), ()

    def identity(self) -> str:
        """Return what tells the store inside from others: it has the same objects."""
        return self._place

    def _size(self, path: str) -> int:
        return self._look(path)[0].size

    def _list(self, prefix: str) -> Iterator[Entry]:
        for entry in self._store.list(prefix):
            self._note(entry, None)
            yield entry

    def _read(self, path: str, ranges: Spans | None) -> tuple[Entry, list[Buffer]]:
        entry, key = self._look(path)
        if ranges is not None:
            check_inside(path, repr(self), *ranges, entry.size)
        # A content is a part, too, whose name in the folder all of its parts know.
        wanted = [_WHOLE] if ranges is None else list(zip(*ranges, strict=True))
        if entry.etag is None:
            self._add("misses", len(wanted))
            self._add("uncached", len(wanted))
            return entry, [self._store.get(path)] if ranges is None else self._store.get_ranges(path, *ranges)
        parts: dict[_Part, Buffer] = {each: b"" for each in wanted if not each[1]}
        keys = {each: key if each == _WHOLE else self._key(entry, each) for each in wanted if each[1]}
        missing = self._find(entry, key, keys, parts)
        if missing:
            with self._disk.alone(keys[each] for each in missing):
                # Another thread or process may have read them by now.
                missing = self._find(entry, key, {each: keys[each] for each in missing}, parts)
                for each, part in zip(missing, self._fetch(entry, missing) if missing else (), strict=True):
                    parts[each] = part
                    self._keep(keys[each], part)
        return entry, [parts[each] for each in wanted]

    def _find(self, entry: Entry, whole: str, keys: dict[_Part, str], parts: dict[_Part, Buffer]) -> list[_Part]:
        """Put the parts that are here among the others, and return those that are not."""
        missing = []
        for each, key in keys.items():
            start, length = (0, entry.size) if each == _WHOLE else each
            found = self._memory.get(key) if self._memory_bytes else None
            if found is not None:
                self._add("memory_hits", 1)
            else:
                found = self._disk.read(key, 0, length, length)
                if found is not None:
                    self._memory.put(key, found)
                elif key != whole:
                    found = self._disk.read(whole, start, length, entry.size)
                self._add("disk_hits", found is not None)
            if found is None:
                missing.append(each)
            else:
                parts[each] = found
        return missing

    def statistics(self) -> CacheStatistics:
        """Return the counts so far. The counts of the store inside are in its own statistics."""
        with self._lock:
            return CacheStatistics(**self._counts, memory_bytes=self._memory.held)

    def _counters(self) -> dict[str, float]:
        return {**self._counts}

    def _add(self, counter: str, count: int) -> None:
        with self._lock:
            self._counts[counter] += count

    def _look(self, path: str) -> tuple[Entry, str]:
        """Return the version of an object that is given, and the key of its content."""
        with self._lock:
            known = self._known.get(path)
            if known is not None:
                self._known.move_to_end(path)
        entry, key = known or (self._ask(path), None)
        if key is None:
            key = self._key(entry, _WHOLE)
            self._note(entry, key)
        return entry, key

    def _note(self, entry: Entry, key: str | None) -> None:
        with self._lock:
            before = self._known.get(entry.path)
            if key is None and before is not None and before[0] == entry:
                key = before[1]
            self._known[entry.path] = entry, key
            self._known.move_to_end(entry.path)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def _ask(self, path: str) -> Entry:
        for entry in self._store.list(path):
            if entry.path == path:  # It comes first.
                return entry
            break
        raise not_found(path, repr(self))

    def _fetch(self, entry: Entry, parts: list[_Part]) -> list[memoryview]:
        """Return what the store has of an object, if that is of the version that is given."""
        path, ranges = entry.path, None if parts == [_WHOLE] else ([s for s, _ in parts], [n for _, n in parts])
        found: Sequence[Buffer]
        if isinstance(self._store, VersionedStore):
            read, found = self._store.read_version(path, ranges)
            now = self._same_naming(self._store, entry, read)
        else:
            found = [self._store.get(path)] if ranges is None else self._store.get_ranges(path, *ranges)
            now = self._ask(path)
        if now != entry:
            with self._lock:
                self._known.pop(path, None)
            raise StoreError(
                f"{path} in {self!r}: it has changed since it was looked up, or the store describes it otherwise when "
                f"it reads it: {_difference(entry, now)}"
            )
        views = [memoryview(part).toreadonly() for part in found]
        if ranges is None and views[0].nbytes != entry.size:
            raise StoreError(f"{path} in {self!r}: {views[0].nbytes} bytes came, but it has {entry.size}")
        return views

    def _same_naming(self, store: VersionedStore, entry: Entry, read: Entry) -> Entry:
        """Return the version that was read, by the name that the listing of the server has for it.

        A few servers name a version otherwise in their answers than in their listings. That is believed only of one
        whose names have never agreed, and if its answers and its listing repeat what they say. If they have agreed
        once, another name is another version, even if the object is the former one again when one asks.
        """
        if (read.size, _bare(read.etag)) == (entry.size, _bare(entry.etag)):
            self._names_agree = True
            return entry
        if read.size != entry.size or (self._names_agree and read.etag is not None):
            return read
        for _ in range(_REPETITIONS):
            now = self._ask(entry.path)
            if now != entry or read.etag is None:
                return now
            if store.read_version(entry.path, ([0], [min(1, entry.size)]))[0] != read:
                return read
        return entry

    def _key(self, entry: Entry, part: _Part) -> str:
        text = "\0".join((self._place, entry.path, str(entry.etag), str(entry.size), *map(str, part)))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def _keep(self, key: str, content: memoryview) -> None:
        self._add("misses", 1)
        if not self._disk.write(key, content):
            self._add("uncached", 1)
        self._memory.put(key, content)


class _MemoryCache:
    """Buffers by their keys, as many as fit in a number of bytes. Threads share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._buffers: OrderedDict[str, memoryview] = OrderedDict()
        self.held = 0

    def get(self, key: str) -> memoryview | None:
        """Return a buffer, which is now the one used last; None if it is not here."""
        with self._lock:
            found = self._buffers.get(key)
            if found is not None:
                self._buffers.move_to_end(key)
            return found

    def put(self, key: str, buffer: memoryview) -> None:
        """Keep a buffer, unless it is too large, and let those go that were not used for longest."""
        gone = []  # Memory is given back without the lock.
        with self._lock:
            if not 0 < buffer.nbytes <= self._most or key in self._buffers:
                return
            self._buffers[key] = buffer
            self.held += buffer.nbytes
            while self.held > self._most:
                _, old = self._buffers.popitem(last=False)
                self.held -= old.nbytes
                gone.append(old)


def _bare(etag: str | None) -> str | None:
    """Return the name of a version without its quotes: the listings of some servers have none."""
    return None if etag is None else etag.removeprefix("W/").strip('"')


def _difference(before: Entry, now: Entry) -> str:
    if before.size != now.size:
        return f"it had {before.size} bytes, and has {now.size}"
    return f"its etag was {before.etag}, and is {now.etag}"
