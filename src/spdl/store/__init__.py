"""Places of data: files, object stores and web servers, with four methods.

A store gives objects by their paths. `Store` says what every store can do; sources and `spdl.io` read from any of them.
"""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.store._cached_store import CachedStore, CacheStatistics
from spdl.store._fsspec import FsspecStore
from spdl.store._http.http_store import HTTPStore
from spdl.store._local import LocalStore
from spdl.store._object_file import ObjectFile
from spdl.store._obstore import ObstoreStore
from spdl.store._read_ahead import Part, read_ahead
from spdl.store._server_limits import StoreStatistics
from spdl.store._store import Entry, Store, StoreError
from spdl.store._urls import open_store, split_url

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
