"""A backend of the tests' own takes a file and a line, and loads whole batches through the code of the extension.

`make test` builds the program beside the extension, from `load_batch.cpp` and the files around it. The CMake option is
SPDL_TEST_PROGRAMS.
"""

import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from spdl.io import load_image, to_numpy

Array = NDArray[np.uint8]

BUILD = Path(__file__).parents[2] / "build"

pytestmark = pytest.mark.skipif("SPDL_WHEEL" in os.environ, reason="beside a wheel there is no program of the tests")


@dataclass
class Loaded:
    """The program's output and its files."""

    images: Array
    backends: list[str]
    failures: dict[int, str]


@pytest.fixture(scope="module")
def program() -> Path:
    found = sorted(BUILD.glob("*/tests/native/load_batch"), key=lambda path: path.stat().st_mtime)
    assert found, "tests/native was not built: `make test` does it"
    return found[-1]


def raw(pixels: Array) -> bytes:
    height, width, _ = pixels.shape
    return b"rawrgb" + struct.pack("<II", width, height) + pixels.tobytes()


def pixels(seed: int, height: int = 12, width: int = 16) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A raw image, one whose data ends after five rows, a JPEG, a BMP, a header only, and a raw image again."""
    contents = {
        "0.raw": raw(pixels(0)),
        "1.raw": raw(pixels(1))[: 14 + 5 * 16 * 3],
        "4.raw": raw(pixels(4))[:10],
        "5.raw": raw(pixels(5)),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    Image.fromarray(pixels(2)).save(tmp_path / "2.jpg", quality=90)
    Image.fromarray(pixels(3)).save(tmp_path / "3.bmp")
    return sorted(tmp_path.iterdir())


def run(
    program: Path, files: list[Path], on_error: str, *, backend: str = "", size: tuple[int, int] = (16, 12)
) -> Loaded | str:
    """Load the files; return the text of the error if the program refuses to."""
    output = files[0].with_name("batch.bin")
    arguments = [on_error, backend, *map(str, size), "2", str(output), *map(str, files)]
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 1:
        return done.stderr
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    shape = tuple(map(int, lines[0][1].split()))
    failures = [rest.split(" ", 1) for kind, rest in lines if kind == "failure"]
    return Loaded(
        np.fromfile(output, dtype=np.uint8).reshape(shape),
        [rest for kind, rest in lines if kind == "backend"],
        {int(index): reason for index, reason in failures},
    )


def load(program: Path, files: list[Path], on_error: str, **options: tuple[int, int]) -> Loaded:
    loaded = run(program, files, on_error, size=options.get("size", (16, 12)))
    assert isinstance(loaded, Loaded), loaded
    return loaded


def test_whole_batches_come_from_all_backends(program: Path, files: list[Path]) -> None:
    good = [files[0], files[2], files[3], files[5]]
    loaded = load(program, good, "raise")
    assert loaded.backends == ["raw-rgb", "libjpeg-turbo", "bmp", "raw-rgb"]
    assert not loaded.failures
    expected = [pixels(0), to_numpy(load_image(files[2])), pixels(3), pixels(5)]
    np.testing.assert_array_equal(loaded.images, np.stack(expected))


def test_images_of_a_new_backend_are_resized_like_any_other(program: Path, files: list[Path]) -> None:
    loaded = load(program, [files[0], files[5]], "raise", size=(8, 6))
    expected = [Image.fromarray(pixels(seed)).resize((8, 6), Image.Resampling.BICUBIC) for seed in (0, 5)]
    np.testing.assert_array_equal(loaded.images, np.stack([np.asarray(image) for image in expected]))


def test_raise_names_every_bad_file(program: Path, files: list[Path]) -> None:
    error = run(program, files, "raise")
    assert error == (
        "1 cannot decode the raw image: the data is truncated\n4 cannot decode the raw image: its header is truncated\n"
    )


def test_skip_leaves_bad_files_out(program: Path, files: list[Path]) -> None:
    loaded = load(program, files, "skip")
    assert loaded.images.shape == (4, 12, 16, 3)
    assert loaded.backends == ["raw-rgb", "libjpeg-turbo", "bmp", "raw-rgb"]
    assert list(loaded.failures) == [1, 4]
    np.testing.assert_array_equal(loaded.images[[0, 2, 3]], np.stack([pixels(0), pixels(3), pixels(5)]))


def test_zero_keeps_the_places_of_bad_files(program: Path, files: list[Path]) -> None:
    loaded = load(program, files, "zero")
    assert loaded.backends == ["raw-rgb", "", "libjpeg-turbo", "bmp", "", "raw-rgb"]
    assert list(loaded.failures) == [1, 4]
    assert not loaded.images[[1, 4]].any()
    np.testing.assert_array_equal(loaded.images[[0, 3, 5]], np.stack([pixels(0), pixels(3), pixels(5)]))


def test_partial_keeps_what_there_is_of_bad_files(program: Path, files: list[Path]) -> None:
    loaded = load(program, files, "partial")
    assert loaded.backends == ["raw-rgb", "raw-rgb", "libjpeg-turbo", "bmp", "", "raw-rgb"]
    assert loaded.failures == {
        1: "the data is truncated: what there was of the image is kept",
        4: "cannot decode the raw image: its header is truncated",
    }
    np.testing.assert_array_equal(loaded.images[1, :5], pixels(1)[:5])
    assert not loaded.images[1, 5:].any()
    assert not loaded.images[4].any()


def test_leaving_all_files_out_is_an_error(program: Path, files: list[Path]) -> None:
    for policy in ("raise", "skip"):
        assert run(program, [files[4]], policy) == "0 cannot decode the raw image: its header is truncated\n"


def test_zero_keeps_the_places_if_all_files_are_bad(program: Path, files: list[Path]) -> None:
    loaded = load(program, [files[4]] * 2, "zero")
    assert (loaded.backends, list(loaded.failures)) == (["", ""], [0, 1])
    assert loaded.images.shape == (2, 12, 16, 3)
    assert not loaded.images.any()


def test_a_backend_can_be_insisted_on(program: Path, files: list[Path]) -> None:
    error = run(program, [files[0], files[3]], "raise", backend="raw-rgb")
    assert error == "1 raw-rgb decodes its own format only, but was asked for\n"


def test_no_backend_decodes_into_other_memory_than_the_batch_is_in(program: Path, files: list[Path]) -> None:
    error = run(program, [files[0]], "raise", backend="device")
    assert error == "0 device decodes into the memory of a GPU, but was asked for\n"


def test_the_extension_has_none_of_it(files: list[Path]) -> None:
    with pytest.raises(RuntimeError, match=r"0\.raw"):
        load_image(files[0])
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()}
    (extension,) = (path for path in map(Path, mapped) if path.parent.name == "io" and path.name.startswith("_native."))
    content = extension.read_bytes()
    assert b"libjpeg-turbo" in content
    assert b"raw-rgb" not in content
