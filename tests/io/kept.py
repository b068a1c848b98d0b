"""What tests make or fetch once and keep in the user's cache, for later runs and for processes beside this one.

Each thing lies under a digest of all that decides what is in it, so what is there is right. It appears only when it is
whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

# Found once: tests give the package another cache.
_CONFIGURED = Path(os.environ.get("XDG_CACHE_HOME", ""))
CACHE = (_CONFIGURED if _CONFIGURED.is_absolute() else Path.home() / ".cache") / "spdl"


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


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold off other processes that are about to make the same. A lock file stays behind beside it."""
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
