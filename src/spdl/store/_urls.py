"""Which store a URL names."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from urllib.parse import SplitResult, quote, unquote, urlsplit

from spdl._check import refuse, refuse_lost_slash
from spdl.store._fsspec import FsspecStore
from spdl.store._http.http_store import HTTPStore
from spdl.store._local import LocalStore
from spdl.store._obstore import ObstoreStore
from spdl.store._store import Store

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
# Of fsspec: an archive's member, or a cache, in front of the URL that it is in.
_CHAINED = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)(://.*)?::[a-zA-Z][a-zA-Z0-9+.-]*://", re.DOTALL)
_QUOTED_SLASH = re.compile(r"((?:.*%2F)?)(.*)", re.DOTALL | re.IGNORECASE)
_AS_WRITTEN = "/%~!$&'()*+,;=:@"
_OBSTORE = {"s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss"}


def split_url(url: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the URL of a store, and the path of an object or folder in it.

    The first part is a whole store, such as a bucket, so that few stores serve many URLs.

    Args:
        url: A URL, or a path of this machine.

    Returns:
        What `open_store` takes, and what the methods of that store take. The path is ``""`` for the store itself.

    Raises:
        TypeError: If it is neither a str nor a path.
        ValueError: If it is a URL without a host, bucket or file, or several that are chained by ``::``.

    Example:
        >>> split_url("s3://bucket/train/0.tar")
        ('s3://bucket', 'train/0.tar')
        >>> split_url("https://example.com/a%20b.tar?token=x")
        ('https://example.com?token=x', 'a b.tar')
        >>> split_url("https://example.com/refs%2Fmain/a.tar")
        ('https://example.com/refs%2F', 'main/a.tar')
        >>> split_url("/data/train/0.tar")
        ('file:///', 'data/train/0.tar')
    """
    scheme, text = _scheme(url), os.fspath(url)
    if not scheme:
        # Only a path with `..` has to be looked at: what it means depends on links.
        whole = os.path.realpath(text) if ".." in text.split("/") else os.path.abspath(text)  # noqa: PTH100
        return "file:///", whole.strip("/")
    if scheme == "file":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            refuse(ValueError, "url", "the URL of a file of this machine, such as 'file:///data/0.tar'", text)
        return "file:///", unquote(parts.path, errors="surrogateescape").strip("/")
    if scheme in ("http", "https"):
        if "#" in text:
            refuse(ValueError, "url", "a URL without a fragment", text, "Write the '#' of a name as %23.")
        of_host: SplitResult | None = None
        with suppress(ValueError):  # Python's message about an invalid URL may have the password in it.
            of_host = urlsplit(text)
        if of_host is None:
            refuse(ValueError, "url", "a URL of a host", text)
        parts = of_host
        query = f"?{parts.query}" if parts.query else ""
        # The text before a quoted slash is not the name of a folder: `a%2Fb` and `a/b` may be two objects.
        above, path = _QUOTED_SLASH.match(parts.path).groups()  # type: ignore[union-attr]
        below = path.lstrip("/")
        # So is a slash after another one: `//a` and `/a` may be two objects.
        above += path[: len(path) - len(below)]
        root = f"{scheme}://{parts.netloc}{'' if above == '/' else quote(above, _AS_WRITTEN)}{query}"
        return root, unquote(below, errors="surrogateescape").rstrip("/")
    if _CHAINED.match(text):
        remedy = (
            "A chained URL of fsspec names a store: `store = spdl.store.FsspecStore('zip://::https://host/all.zip')`. "
            "Pass that as `store`, or what `store.get` returns."
        )
        refuse(ValueError, "url", "the URL of one object, without '::'", text, remedy)
    # All others write paths without quoting.
    root, _, path = text.partition("://")[2].partition("/")
    if not root:
        refuse(ValueError, "url", "a URL with the name of a bucket or host", text)
    return f"{scheme}://{root}", path.strip("/")


def _scheme(url: object) -> str:
    """Return the scheme of a URL, in lower case; "" for a path."""
    if not isinstance(url, (str, os.PathLike)):
        refuse(TypeError, "url", "a URL or a path (str or os.PathLike)", url)
    if not os.fspath(url):
        refuse(ValueError, "url", "a URL or a path, not an empty one; '.' is the working folder", url)
    found = (_SCHEME.match(url) or _CHAINED.match(url)) if isinstance(url, str) else None
    return found[1].lower() if found else ""


def open_store(url: str | os.PathLike[str]) -> Store:
    """Return the store that a URL names: all paths of its objects are below that.

    ====================================================  ===========================
    the URL begins with                                   the store
    ====================================================  ===========================
    ``file://``, or it is a path                          `LocalStore`
    ``http://``, ``https://``                             `HTTPStore`
    ``s3://``, ``gs://``, ``az://``, ``abfs://``          `ObstoreStore`
    anything else, such as ``hf://`` or ``sftp://``       `FsspecStore`
    ====================================================  ===========================

    For settings, such as credentials, create the store yourself. Keep it: it has connections and has learnt of the
    server.

    Args:
        url: A folder, a bucket or a part of one.

    Raises:
        FileNotFoundError: If it is a folder of this machine, and missing.
        ModuleNotFoundError: If an extra has to be installed; the message has the command.
        StoreError: If no store is known for it.
        ValueError: If the URL is invalid.

    Example:
        >>> open_store("https://example.com/data")
        HTTPStore('https://example.com/data')
    """
    scheme, text = _scheme(url), str(url)
    if not scheme:
        refuse_lost_slash("url", os.fsdecode(url))
        return LocalStore(url)
    if scheme == "file":
        return LocalStore("/" + split_url(text)[1])
    if scheme in ("http", "https"):
        return HTTPStore(text)
    return ObstoreStore(text) if scheme in _OBSTORE else FsspecStore(text)
