"""What tells a store from all others, for whoever keeps what was read from it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import parse_qsl, urlencode

if TYPE_CHECKING:
    from spdl.store._protocol.store import Store

__all__ = ["identity_of", "named_servers", "secrets_of", "without_secrets", "without_signature"]

# The parameters of signed URLs, by one that only such a URL has: those of Amazon, of Google, of Azure, of CloudFront,
# and the older ones of Amazon and Google. What ends with a hyphen is the beginning of a name.
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


@runtime_checkable
class _Identified(Protocol):
    def identity(self) -> str: ...


def identity_of(store: Store) -> str:
    """Return a text that stores share which have the same objects under the same paths, and no others.

    It is made of what the store's method ``identity`` returns, or of its repr if it has none. It shows nothing of it.
    """
    found = store.identity() if isinstance(store, _Identified) else repr(store)
    return hashlib.sha256(found.encode("utf-8", "surrogateescape")).hexdigest()


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
    """Return the settings of a cloud that say which server and which account of it, also those of the environment."""
    told = {name: value for name, value in os.environ.items() if name.startswith(_CLOUDS)} | {**settings}
    return sorted((name, str(value)) for name, value in told.items() if any(each in name.upper() for each in _SERVERS))
