"""Text that others have a part in, as messages show it: URLs without what may be a secret, no control characters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["escaped", "shown", "shown_place", "shown_urls", "without_user"]

# In abfss://container@account.dfs.core.windows.net/ that is a container, not a user.
_USER = re.compile(r"^((?!abfss?://[^:/?#]*@)[a-z][a-z0-9+.-]*://)[^/?#]*@", re.IGNORECASE)
# What follows a colon and is no port is the beginning of a password that has a slash or the like in it.
_NO_PORT = re.compile(
    r"^([a-z][a-z0-9+.-]*://)(?!\[[^/]*\](?::\d*)?(?:/|$))[^/]*:(?!\d+(?:/|$))(?:.*@|[^/]*)", re.IGNORECASE | re.DOTALL
)
# A colon at its end is one of the sentence.
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]*(?<!:)", re.IGNORECASE)
_QUERY = re.compile(r"\?[\w%.~-]+=[^\s'\"<>]*")


def without_user(url: str) -> str:
    """Return a URL without the user's name and password."""
    return _USER.sub(r"\1", url)


def shown(url: str) -> str:
    """Return a URL without what may be a secret: the user's name and password, and the query, such as a signature."""
    return _NO_PORT.sub(r"\1...", re.split(r"[?#]", without_user(url), maxsplit=1)[0])


def shown_place(place: str) -> str:
    """Return a path as it is, and a URL as `shown` has it."""
    return shown(place) if "://" in place else place


def shown_urls(text: str) -> str:
    """Return a text of somebody else with its URLs as `shown` has them, and without what looks like a query."""
    return _QUERY.sub("?...", _URL.sub(lambda found: shown(found[0]), text))


def escaped(text: str) -> str:
    """Return a text that a terminal or a log takes as it is: line ends and control characters are written out."""
    return text if text.isprintable() else "".join(_escaped(text))


def _escaped(text: str) -> Iterator[str]:
    return (each if each.isprintable() else ascii(each)[1:-1] for each in text)
