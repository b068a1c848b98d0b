"""The files to read: those of interest in all packages, each content once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.conformance.fetch import checksum, fetch
from tests.conformance.formats import format_of
from tests.conformance.unpack import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.conformance.packages import Package

_BEGIN = 64


@dataclass(frozen=True)
class File:
    """A file to read."""

    label: str
    """The package's name and the path in it, such as ``pillow/Tests/images/hopper.png``."""
    format: str
    path: Path


def corpus(chosen: Iterable[Package], folder: Path, say: Callable[[str], None]) -> list[File]:
    """Return the files of these packages, which are kept in a folder. Fetch what is not there.

    Raises:
        FetchError: If a package cannot be fetched.
    """
    folders = {}
    for package in chosen:
        archive = folder / "archives" / package.archive
        if not archive.exists():
            say(f"fetching {package.name} {package.version}")
        folders[package.name] = unpack(package, fetch(package, folder / "archives"), folder / "files")
    return files(folders)


def files(folders: dict[str, Path]) -> list[File]:
    """Return the files of interest in folders, by the names that labels begin with. Leave out repeated contents."""
    found: dict[str, File] = {}
    for name, folder in folders.items():
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            with path.open("rb") as file:
                file_format = format_of(path.name, file.read(_BEGIN))
            if file_format is not None:
                found.setdefault(checksum(path), File(f"{name}/{path.relative_to(folder)}", file_format, path))
    return list(found.values())
