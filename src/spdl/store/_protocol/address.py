"""Where a store is, and what nobody is to see of that."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_plus

from spdl._shown import shown, shown_urls

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SecretAddress"]

# Shorter ones would be found in the middle of words.
_SHORTEST = 4


class SecretAddress:
    """The URL of a store, with the secrets that go with it. Neither its text nor its repr show one.

    Args:
        url: The URL, whose query, user name and password are secret.
        *secrets: Texts, or mappings whose values they are, such as headers.
    """

    def __init__(self, url: str, *secrets: object) -> None:
        self.url = url
        self._secrets: set[str] = set()
        head, _, fragment = url.partition("#")
        query = head.partition("?")[2]
        begin = url.find("://") + 3
        user = url[begin : max(begin, url.rfind("@"))]
        if ":" not in user and "/" in user:  # The sign is one of the path's.
            user = ""
        self.learn([fragment, query, *(each.partition("=")[2] for each in query.split("&"))])
        self.learn([user, user.partition(":")[2], *secrets])

    def learn(self, secrets: object) -> None:
        """Hide more texts: one, or all in a list or among the values of a mapping."""
        if isinstance(secrets, Mapping):
            secrets = list(secrets.values())
        if isinstance(secrets, list):
            for each in secrets:
                self.learn(each)
        if isinstance(secrets, bytes):
            secrets = secrets.decode("latin-1")
        if isinstance(secrets, str):
            # Of "Bearer abcd" the second word is the secret one.
            for text in {secrets, *secrets.split()}:
                forms = {text, unquote_plus(text), quote(text), quote(text, safe="")}
                self._secrets |= {form for form in forms if len(form) >= _SHORTEST}

    def hide(self, text: str) -> str:
        """Return a text, of a server or a library, without secrets."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "...")
        return shown_urls(text)

    @contextmanager
    def hiding(self) -> Iterator[None]:
        """Hide secrets in what is raised, in its notes and in what it came from."""
        try:
            yield
        except Exception as error:
            self._hide_in(error, set())
            raise

    def _hide_in(self, error: BaseException, seen: set[int]) -> None:
        # What an error was raised from is often behind it by both links.
        if id(error) in seen:
            return
        seen.add(id(error))
        error.args = tuple(self.hide(each) if isinstance(each, str) else each for each in error.args)
        if hasattr(error, "__notes__"):
            error.__notes__ = [self.hide(each) for each in error.__notes__]
        for name in ("filename", "filename2", "strerror", "reason"):
            if isinstance(text := getattr(error, name, None), str):
                setattr(error, name, self.hide(text))
        for link in ("__cause__", "__context__"):
            behind = getattr(error, link)
            if behind is None:
                continue
            with suppress(AttributeError, TypeError):  # Some cannot be changed.
                self._hide_in(behind, seen)
            if self.hide(said := f"{behind} {behind!r}") != said:
                setattr(error, link, None)

    def __str__(self) -> str:
        return shown(self.url)

    def __repr__(self) -> str:
        return repr(str(self))
