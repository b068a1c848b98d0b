"""Archives of packages, fetched once from PyPI and Debian, and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.packages import Package

_SECONDS = 1200
_SILENT_SECONDS = 120
# Debian replaces what its lists name now and then.
_LISTS_SECONDS = 24 * 3600
_POOL = "http://deb.debian.org/debian/pool/main"
_SNAPSHOT = "https://snapshot.debian.org/file"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SOURCES = f"""\
Types: deb deb-src
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main
Architectures: amd64
Signed-By: {_KEYRING}
"""


class FetchError(Exception):
    """Raised when an archive cannot be had, or is not the one that is pinned. The message says what to do."""


def fetch(package: Package, folder: Path) -> Path:
    """Return where the package's archive lies in this folder. Fetch it first if it is not there.

    Raises:
        FetchError: If it cannot be fetched, or has another checksum than the pin.
    """
    archive = folder / package.archive
    if archive.is_file() and checksum(archive) == package.sha256:
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as name:
        if package.kind == "sdist":
            requirement = f"{package.name}=={package.version}"
            _run(package, folder, [sys.executable, "-m", "unearth", "--no-binary", "--download", name, requirement])
        elif package.kind == "debian-pool":
            _download(package, folder, Path(name) / package.archive)
        else:
            options = _apt_options(package, folder / "apt")
            if package.kind == "debian":
                action = ["download", f"{package.name}={package.version}"]
            else:
                action = ["source", "--download-only", "--tar-only", package.name]
            _run(package, folder, ["apt-get", "--quiet", *options, *action], within=Path(name))
        fetched = Path(name) / package.archive
        if not fetched.is_file():
            have = ", ".join(sorted(each.name for each in Path(name).iterdir())) or "nothing"
            raise _error(package, folder, f"the client fetched {have}")
        if (found := checksum(fetched)) != package.sha256:
            raise _error(package, folder, f"what was fetched has the SHA-256 {found}")
        fetched.rename(archive)
    return archive


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(package: Package, folder: Path, target: Path) -> None:
    """Get an archive from Debian's pool, or from its archive of all that the pool ever had."""
    group = package.name[:4] if package.name.startswith("lib") else package.name[0]
    path = quote(f"{group}/{package.name}/{package.archive}")
    failures = []
    for url in (f"{_POOL}/{path}", f"{_SNAPSHOT}/{package.sha1}"):
        try:
            with (
                urllib.request.urlopen(url, timeout=_SILENT_SECONDS) as response,  # noqa: S310 - an address of ours.
                target.open("wb") as file,
            ):
                shutil.copyfileobj(response, file)
        except (OSError, HTTPException) as error:
            failures.append(f"{url}: {error}")
        else:
            return
    raise _error(package, folder, "; ".join(failures))


def _apt_options(package: Package, folder: Path) -> list[str]:
    """Return the options with which apt-get knows Debian 12 alone and writes to this folder alone, so without root."""
    options = [
        f"-o{name}={value}"
        for name, value in {
            "Dir::Etc::sourcelist": folder / "debian.sources",
            "Dir::Etc::sourceparts": "-",
            "Dir::State": folder / "state",
            "Dir::Cache": folder / "cache",
            "APT::Architecture": "amd64",
            "APT::Sandbox::User": "",
        }.items()
    ]
    fetched = folder / "state" / "fetched"
    if not (fetched.exists() and time.time() - fetched.stat().st_mtime < _LISTS_SECONDS):
        if not Path(_KEYRING).is_file():
            raise _error(package, folder.parent, f"{_KEYRING} is missing (apt-get install debian-archive-keyring)")
        for each in ("state/lists/partial", "cache/archives/partial"):
            (folder / each).mkdir(parents=True, exist_ok=True)
        (folder / "debian.sources").write_text(_SOURCES, encoding="utf-8")
        _run(package, folder.parent, ["apt-get", "--quiet", *options, "update"])
        fetched.touch()
    return options


def _run(package: Package, folder: Path, command: Sequence[str], within: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=within,
            check=False,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _error(package, folder, str(error)) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise _error(package, folder, f"{Path(command[0]).name} failed: {said[-1] if said else done.returncode}")


def _error(package: Package, folder: Path, why: str) -> FetchError:
    return FetchError(
        f"cannot fetch {package.name} {package.version}: {why}. The archive is {package.archive}, with the SHA-256 "
        f"{package.sha256}. Put it into {folder} by hand, or pin another version in tests/conformance/packages.toml."
    )
