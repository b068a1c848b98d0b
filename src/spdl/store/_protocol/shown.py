"""URLs as errors and reprs show them."""

from __future__ import annotations

import re

__all__ = ["shown"]

# In abfss://container@account.dfs.core.windows.net/ that is a container, not a user.
_USER = re.compile(r"^((?!abfss?://[^:/?#]*@)[a-zA-Z][a-zA-Z0-9+.-]*://)[^/?#]*@", re.IGNORECASE)


def shown(url: str) -> str:
    """Return a URL without what may be a secret: the user's name and password, and the query, such as a signature."""
    return _USER.sub(r"\1", url.partition("?")[0])
