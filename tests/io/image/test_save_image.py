"""save_image, encode_image: the file of an image, its name, and the file that it replaces."""

import io
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.io.encoding import encode, noise, open_with_pillow

from spdl.io import encode_config, encode_image, save_image


@pytest.mark.parametrize("suffix", [".jpg", ".JPEG", ".jpe", ".jfif", ".png", ".Tif", ".tiff", ".dib"])
def test_the_suffix_says_the_format(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"image{suffix}"
    encode_image(str(path), noise(8, 9, 3))
    expected = {"j": "JPEG", "p": "PNG", "t": "TIFF", "d": "BMP"}[suffix[1].lower()]
    with Image.open(path) as image:
        assert (image.format, image.size) == (expected, (9, 8))


def test_a_format_that_is_named_wins_over_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    encode_image(path, noise(8, 9, 3), encode_config=encode_config(format="png"))
    with Image.open(path) as image:
        assert image.format == "PNG"


@pytest.mark.parametrize("name", ["image", "image.xyz", ".png"])
def test_a_name_that_says_no_format_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=rf"^`path` must be a name that ends in one of \.jpg.* got .*{name}' .*encode_config\(format=",
    ):
        save_image(tmp_path / name, noise(4, 4, 3))
    assert list(tmp_path.iterdir()) == []


def test_what_is_larger_than_a_jpeg_can_be_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    with pytest.raises(
        RuntimeError, match=rf"^{path}: cannot encode the JPEG: Maximum supported image dimension is 65500"
    ):
        save_image(path, noise(1, 65501), "gray")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    images = [noise(200, 200, 3, seed=seed) for seed in range(2)]
    save_image(path, images[0])
    stop = threading.Event()
    seen = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(encoded[0] == (content := path.read_bytes()) or encoded[1] == content)

    encoded = [encode(image, format="png") for image in images]
    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(40):
        save_image(path, images[turn % 2])
    stop.set()
    reader.join()
    assert seen == {True}
    before = path.read_bytes()
    with pytest.raises(ValueError, match="shape"):
        save_image(path, images[0][0])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_many_threads_may_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    arrays = [noise(60, 60, 3, seed=seed) for seed in range(4)]
    encoded = {encode(array, format="jpeg") for array in arrays}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda turn: save_image(path, arrays[turn % 4]), range(80)))
    assert path.read_bytes() in encoded
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_keeps_its_permissions_and_a_link_its_target(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    link = tmp_path / "link.png"
    path.touch()
    path.chmod(0o640)
    link.symlink_to(path)
    save_image(link, noise(4, 4, 3))
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert open_with_pillow(path).size == (4, 4)
    umask = os.umask(0o027)
    try:
        save_image(tmp_path / "new.png", noise(4, 4, 3))
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new.png").stat().st_mode) == 0o640


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe.png"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as pool:
        content = pool.submit(path.read_bytes)
        save_image(path, noise(4, 4, 3))
        assert open_with_pillow(content.result()).size == (4, 4)
    assert path.is_fifo()


def test_names_of_any_length_and_letters(tmp_path: Path) -> None:
    for name in ("ü" * 125 + ".png", os.fsdecode(b"\xff\xfe.png"), "a b'\n.png"):
        save_image(tmp_path / name, noise(4, 4, 3))
        assert open_with_pillow((tmp_path / name).read_bytes()).size == (4, 4)


def test_a_folder_that_is_not_there_is_a_file_not_found_error(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "image.png"
    with pytest.raises(FileNotFoundError) as raised:
        save_image(path, noise(4, 4, 3))
    assert raised.value.filename == str(path)
    with pytest.raises(IsADirectoryError):
        encode_image(tmp_path, noise(4, 4, 3), encode_config=encode_config(format="png"))


def test_a_full_disk_leaves_what_was_there() -> None:
    with pytest.raises(OSError, match="No space left on device"):
        encode_image("/dev/full", noise(300, 300, 3), encode_config=encode_config(format="png"))


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (3, TypeError, r"^`path` must be a path \(str or os.PathLike\) or a binary file, got 3 "),
        (
            io.BytesIO(),
            ValueError,
            r"^`encode_config` must be .*suffix.* Pass `encode_config=encode_config\(format=",
        ),
    ],
)
def test_what_is_no_target_is_an_error(path: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        encode_image(path, noise(4, 4, 3))


def test_the_example_of_the_references_documentation(tmp_path: Path) -> None:
    path = tmp_path / "foo.png"
    config = encode_config(width=198, height=96, scale_algo="neighbor")
    encode_image(str(path), noise(32, 16, 3), pix_fmt="rgb24", encode_config=config)
    assert open_with_pillow(path).size == (198, 96)
