"""The examples in the docstrings run and print what they say. Those of spdl.io need a photo and have their own test."""

import contextlib
import doctest
import importlib
from pathlib import Path

import pytest

with contextlib.suppress(ImportError):
    import pyarrow.parquet  # noqa: F401 - has threads that live as long as the process.

SOURCE = Path(__file__).parents[2] / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in sorted(SOURCE.glob("spdl/**/*.py"))
    if ">>>" in path.read_text(encoding="utf-8") and "io" not in path.relative_to(SOURCE).parts
]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    loaded = importlib.import_module(module)
    source = Path(str(loaded.__file__)).read_text(encoding="utf-8")
    for package in ("datasets", "pyarrow"):
        if f">>> import {package}" in source:
            pytest.importorskip(package, reason=f"the example needs {package}")
    results = doctest.testmod(loaded, verbose=False)
    assert results.attempted > 0
    assert results.failed == 0
