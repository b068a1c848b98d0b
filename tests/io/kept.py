"""What tests make or fetch once and keep in the user's cache, for later runs and for processes beside this one.

Each thing lies under a digest of all that decides what is in it, so what is there is right. It appears only when it is
whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

# Found once: tests give the package another cache.
_CONFIGURED = Path(os.environ.get("XDG_CACHE_HOME", ""))
CACHE = (_CONFIGURED if _CONFIGURED.is_absolute() else Path.home() / ".cache") / "spdl"


_DAY = 24 * 3600
_LARGE = 1 << 21


def digest(*what: object) -> str:
    """Return a word that stands for texts, bytes, and the contents of files and modules."""
    total = hashlib.sha256()
    for each in what:
        content = (
            each if isinstance(each, bytes) else each.read_bytes() if isinstance(each, Path) else str(each).encode()
        )
        total.update(b"%d:" % len(content))
        total.update(content)
    return total.hexdigest()[:16]


def files_of(*modules: ModuleType) -> list[Path]:
    """Return the files of modules, for `digest`."""
    return [Path(str(module.__file__)) for module in modules]


def kept(path: Path, make: Callable[[Path], object]) -> Path:
    """Return the path of a file or a folder. Make it first if it is not there: `make` gets another path to make it at.

    Of several processes, one makes it.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(path):
        if not path.exists():
            # The name stays, since some makers go by its suffix.
            with tempfile.TemporaryDirectory(prefix="making-", dir=path.parent) as folder:
                making = Path(folder) / path.name
                make(making)
                making.rename(path)
    return path


def kept_bytes(path: Path, make: Callable[[], bytes]) -> bytes:
    """Return the content of a file. Make it if it is not there: of several processes, each may do so.

    What is large is not kept. Files in the same folder that were not wanted for two weeks are removed now and then.
    """
    with suppress(FileNotFoundError):
        content = path.read_bytes()
        if time.time() - path.stat().st_mtime > _DAY:
            path.touch()
        return content
    content = make()
    if len(content) > _LARGE:
        return content
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="making-", dir=path.parent, delete=False) as making:
        making.write(content)
    Path(making.name).rename(path)
    _remove_old(path.parent)
    return content


def _remove_old(folder: Path) -> None:
    stamp = folder / "looked-through"
    with suppress(FileNotFoundError):
        if time.time() - stamp.stat().st_mtime < _DAY:
            return
    stamp.touch()
    for path in folder.iterdir():
        # Another process may be doing the same.
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > 14 * _DAY:
                path.unlink()


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold off other processes that are about to make the same. A lock file stays behind beside it."""
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
