"""The address of a store: what distinguishes stores, and which parts are secret."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode

from spdl._check import shown, shown_urls

# Shorter ones would be found in the middle of words.
_SHORTEST = 4
# The parameters of signed URLs, by one that only such a URL has: Amazon, Google, Azure, CloudFront, and the older
# ones of Amazon and Google. An entry that ends with a hyphen is the beginning of a name.
_SIGNATURES = {
    "x-amz-signature": "x-amz-",
    "x-goog-signature": "x-goog-",
    "sig": "sig se st sp sv sr spr sip sdd ss srt ske skoid sks skt sktid skv",
    "key-pair-id": "key-pair-id signature expires policy hash-algorithm",
    "awsaccesskeyid": "awsaccesskeyid signature expires",
    "googleaccessid": "googleaccessid signature expires",
}
_SECRETS = ("secret", "token", "password", "key", "credential", "sas", "signature", "authorization", "cookie")
_CLOUDS = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_", "STORAGE_", "FSSPEC_")
_SERVERS = ("ENDPOINT", "EMULATOR", "ACCOUNT_NAME", "STORAGE_URL", "BASE_URL", "BUCKET", "CONTAINER")


class SecretAddress:
    """The URL of a store, with the secrets that go with it. Neither its text nor its repr show one.

    The query, user name and password of the URL are secret. So are the other texts, and the values of mappings, such
    as headers.
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
        # The cause of an error is often linked twice.
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


def without_signature(query: str) -> str:
    """Return the query of a URL without what says only who may ask, and for how long: it differs from run to run."""
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    names = {name.lower() for name, _ in pairs}
    gone = " ".join(parts for mark, parts in _SIGNATURES.items() if mark in names).split()
    if not gone:
        return query
    beginnings = tuple(each for each in gone if each.endswith("-"))
    kept = [each for each in pairs if each[0].lower() not in gone and not each[0].lower().startswith(beginnings)]
    return urlencode(kept, errors="surrogateescape")


def without_secrets(settings: object) -> object:
    """Return settings in one order, without those whose names say that they are secret, for these are renewed."""
    if isinstance(settings, dict):
        pairs = [(str(name), without_secrets(value)) for name, value in settings.items()]
        return sorted((pair for pair in pairs if not any(each in pair[0].lower() for each in _SECRETS)), key=repr)
    if isinstance(settings, list | tuple):
        return [without_secrets(each) for each in settings]
    # An object has its address in its repr, which differs from run to run.
    return settings if isinstance(settings, str | bytes | int | float | None) else type(settings).__qualname__


def secrets_of(settings: object) -> list[object]:
    """Return the settings whose names say that they are secret, also of settings within settings."""
    if isinstance(settings, Mapping):
        return [
            value if any(each in str(name).lower() for each in _SECRETS) else secrets_of(value)
            for name, value in settings.items()
        ]
    return [each for item in settings for each in secrets_of(item)] if isinstance(settings, list | tuple) else []


def named_servers(settings: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the settings of a cloud that name a server or an account, including the environment's."""
    told = {name: value for name, value in os.environ.items() if name.startswith(_CLOUDS)} | {**settings}
    return sorted((name, str(value)) for name, value in told.items() if any(each in name.upper() for each in _SERVERS))
