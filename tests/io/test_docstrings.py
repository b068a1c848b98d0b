"""Each public name of spdl.io has examples in its docstring, which run and show what they say."""

from __future__ import annotations

import doctest
import io
import wave
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import spdl.io
import spdl.io.utils
from tests.io.av.clips import make_clip
from tests.io.images import make_jpeg
from tests.io.tars import make_tar

if TYPE_CHECKING:
    from pathlib import Path

NAMES: dict[str, Any] = {
    name: getattr(module, name) for module in (spdl.io, spdl.io.utils) for name in sorted(module.__all__)
}
NEED_TORCH = {"to_torch", "transfer_tensor", "transfer_tensor_d2h", "transfer_tensor_h2d"}
NEED_GPU = {"CUDABuffer"}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.mp4")


def make_sound() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(16_000))
    return file.getvalue()


@pytest.mark.parametrize("name", sorted(NAMES.keys() - NEED_GPU))
def test_the_examples_run(name: str, clip: Path, tmp_path: Path) -> None:
    if name in NEED_TORCH:
        pytest.importorskip("torch")
    photo, archive = tmp_path / "photo.jpg", tmp_path / "archive.tar"
    photo.write_bytes(make_jpeg(500, 375))
    archive.write_bytes(make_tar([("a.txt", b"1"), ("a.cls", b"7"), ("b.txt", b"2")]))
    given = {"photo": photo, "clip": clip, "archive": archive, "sound": make_sound(), "io": io, "np": np}
    tests = doctest.DocTestFinder().find(NAMES[name], name, module=False, globs=NAMES | given)
    assert any(test.examples for test in tests)
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0, test.name
