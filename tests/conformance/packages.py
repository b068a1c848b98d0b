"""The packages whose files are read, as packages.toml pins them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

PINS = Path(__file__).with_name("packages.toml")

Kind = Literal["sdist", "debian-source", "debian", "debian-pool"]


@dataclass(frozen=True)
class Package:
    """A package, the archive of it that is fetched, and which of its files are of interest."""

    name: str
    kind: Kind
    version: str
    archive: str
    sha256: str
    sha1: str = ""
    """For `debian-pool`: the archive's name in Debian's archive of all it ever had."""
    only: tuple[str, ...] = ("*",)
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what a typing mistake in the file could spoil."""
        if self.kind not in get_args(Kind):
            raise ValueError(f"{self.name}: `kind` must be one of {', '.join(get_args(Kind))}, not {self.kind!r}")
        if len(self.sha256) != 64 or not set(self.sha256) <= set("0123456789abcdef"):
            raise ValueError(f"{self.name}: `sha256` must be 64 hexadecimal digits in lower case, not {self.sha256!r}")
        if bool(self.sha1) != (self.kind == "debian-pool"):
            raise ValueError(f"{self.name}: `sha1` belongs to archives of the kind debian-pool, and these need it")

    def wants(self, name: str) -> bool:
        """Return whether the file with this path is of interest."""
        return any(fnmatchcase(name, each) for each in self.only) and not any(
            fnmatchcase(name, each) for each in self.without
        )


def packages(pins: Path = PINS) -> list[Package]:
    """Return the packages that a file pins.

    Raises:
        TypeError: If an entry lacks a field, or has an unknown one.
        ValueError: If a field has a wrong value.
    """
    entries = tomllib.loads(pins.read_text(encoding="utf-8"))
    return [_package(name, entry) for name, entry in entries.items()]


def _package(name: str, entry: dict[str, Any]) -> Package:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return Package(name=name, **fields)
