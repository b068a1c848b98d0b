"""The examples in the docstrings of spdl.io run and show what they say."""

import doctest
import importlib
import io
import pkgutil
import wave
from pathlib import Path

import numpy as np
import pytest

import spdl.io
from tests.io.av.clips import make_clip
from tests.io.images import make_jpeg
from tests.io.tars import make_tar

SOUND = io.BytesIO()
with wave.open(SOUND, "wb") as sound:
    sound.setnchannels(1)
    sound.setsampwidth(2)
    sound.setframerate(8000)
    sound.writeframes(bytes(16_000))

MODULES = sorted(module.name for module in pkgutil.walk_packages(spdl.io.__path__, "spdl.io."))


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("._native")])
def test_the_examples_run(name: str, tmp_path: Path) -> None:
    if name in ("spdl.io._array.arrays", "spdl.io._device.transfer_tensor"):
        pytest.importorskip("torch")
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(make_jpeg(500, 375))
    clip = make_clip(tmp_path / "clip.mp4") if "._av" in name else None
    archive = tmp_path / "archive.tar"
    archive.write_bytes(make_tar([("a.txt", b"1"), ("a.cls", b"7"), ("b.txt", b"2")]))
    module = importlib.import_module(name)
    names = (
        vars(spdl.io)
        | vars(module)
        | {"photo": photo, "clip": clip, "archive": archive, "sound": SOUND.getvalue(), "io": io, "np": np}
    )
    results = doctest.testmod(module, extraglobs=names, raise_on_error=False)
    assert results.failed == 0


NATIVE_CLASSES = sorted(
    name for name in spdl.io.__all__ if getattr(spdl.io, name).__module__ == "spdl.io._native" and name != "CUDABuffer"
)


@pytest.mark.parametrize("name", NATIVE_CLASSES)
def test_the_examples_of_native_classes_run(name: str, tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(make_jpeg(500, 375))
    clip = make_clip(tmp_path / "clip.mp4") if name.startswith("Video") else None
    names = {**vars(spdl.io), "photo": photo, "clip": clip, "sound": SOUND.getvalue(), "np": np}
    (test,) = (it for it in doctest.DocTestFinder(recurse=False).find(getattr(spdl.io, name), name, globs=names))
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
