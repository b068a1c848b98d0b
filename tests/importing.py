"""Import the programs of a folder under the names by which they import each other."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@contextlib.contextmanager
def importable(*folders: str) -> Iterator[None]:
    """Make modules of these folders importable, and forget them afterwards: other folders have some of their names."""
    paths = [ROOT / folder for folder in folders]
    names = {file.stem for path in paths for file in path.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    with pytest.MonkeyPatch.context() as patch:
        for path in paths:
            patch.syspath_prepend(str(path))
        try:
            yield
        finally:
            for name in names & sys.modules.keys():
                del sys.modules[name]
            sys.modules.update(others)
