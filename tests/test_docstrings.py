"""The examples in the docstrings run and print what they say."""

import doctest
import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SOURCE = Path(__file__).parent.parent / "src"
MODULES = [
    str(path.relative_to(SOURCE).with_suffix("")).replace("/", ".")
    for path in sorted(SOURCE.glob("spdl/**/*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.fixture
def photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the examples of spdl.io read: one photo by that name, and a folder of them to work in."""
    pixels = np.random.default_rng(0).integers(256, size=(375, 500, 3), dtype=np.uint8)
    path = tmp_path / "photo.jpg"
    Image.fromarray(pixels).save(path)
    for index in range(3):
        shutil.copy(path, tmp_path / f"{index}.jpg")
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str, photo: Path) -> None:
    tests = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))
    if any("torch" in example.source for test in tests for example in test.examples):
        pytest.importorskip("torch")
    names = vars(importlib.import_module("spdl.io")) if module.startswith("spdl.io") else {}
    examples = 0
    report: list[str] = []
    for test in tests:
        test.globs.update(names, photo=photo)
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=report.append)
        examples += len(test.examples)
    assert examples > 0
    assert not report, "".join(report)
