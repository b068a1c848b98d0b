"""Where data lives: files, object stores, web servers, behind four methods.

A store gives objects by their paths. `Store` says what every store can do; sources and `spdl.io` read from any of them.
"""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.store._adapters.fsspec import FsspecStore
from spdl.store._adapters.http import HTTPStore
from spdl.store._adapters.local import LocalStore
from spdl.store._adapters.obstore import ObstoreStore
from spdl.store._ahead.read_ahead import Part, read_ahead
from spdl.store._cache.cached_store import CachedStore, CacheStatistics
from spdl.store._open.object_file import ObjectFile
from spdl.store._open.urls import open_store, split_url
from spdl.store._protocol.store import Entry, Store, StoreError
from spdl.store._reading.books import StoreStatistics

__all__ = [
    "CacheStatistics",
    "CachedStore",
    "Entry",
    "FsspecStore",
    "HTTPStore",
    "LocalStore",
    "ObjectFile",
    "ObstoreStore",
    "Part",
    "Store",
    "StoreError",
    "StoreStatistics",
    "open_store",
    "read_ahead",
    "split_url",
]
