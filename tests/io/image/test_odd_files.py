"""Paths that name no image, and content that changes while it is read."""

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from tests.io.images import Array, decode_with_pillow, encode, make_image, make_jpeg

from spdl.io import demux_image, load_image, load_image_batch, to_numpy

JPEG = make_jpeg(50, 40)


def nothing(path: Path) -> None:
    """Leave it missing."""


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


ODD = {
    "missing": (nothing, "cannot open the file: No such file or directory"),
    "a folder": (Path.mkdir, "cannot read the file: it is a directory"),
    "a socket": (make_socket, "cannot open the file: No such device or address"),
    "empty": (Path.touch, "cannot read the image: there are no bytes in it"),
    "one zero byte": (lambda path: path.write_bytes(b"\0"), "cannot read the image: "),
    "zero bytes": (lambda path: path.write_bytes(bytes(5000)), "cannot read the image: "),
    "text": (lambda path: path.write_text("<html>404</html>\n" * 50, "utf-8"), "cannot read the image: "),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "cannot open the file: No such file or directory"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "cannot open the file: Too many levels of symbolic"),
    "a link to a folder": (lambda path: path.symlink_to("."), "cannot read the file: it is a directory"),
    "a null device": (lambda path: path.symlink_to("/dev/null"), "cannot read the image: there are no bytes in it"),
}
"""How each file is made, and the error for it."""


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_image_is_named(tmp_path: Path, kind: str) -> None:
    make, reason = ODD[kind]
    path = tmp_path / "image.jpg"
    make(path)  # type: ignore[operator]
    message = f"^{re.escape(str(path))}: {reason}"
    with pytest.raises(RuntimeError, match=message):
        load_image(path)
    with pytest.raises(RuntimeError, match=message):
        demux_image(path)
    with pytest.raises(RuntimeError, match=rf"1 of 2 images.*\n  srcs\[1\], {re.escape(str(path))}: {reason}"):
        load_image_batch([JPEG, path], width=8, height=8)


@pytest.mark.parametrize("extension", ["jpg", "png", "webp", "gif", "bmp", "tiff", "mp4", "txt", ""])
def test_what_is_in_a_file_counts_and_not_its_name(tmp_path: Path, extension: str) -> None:
    image = make_image(20, 10)
    for kind, data in (("JPEG", make_jpeg(20, 10)), ("PNG", encode(image, "PNG")), ("BMP", encode(image, "BMP"))):
        path = tmp_path / f"{kind}.{extension}"
        path.write_bytes(data)
        pixels = to_numpy(load_image(path, filter_desc="format=pix_fmts=rgb24"))
        if kind == "JPEG":  # FFmpeg's inverse transform.
            assert np.abs(pixels.astype(int) - np.asarray(decode_with_pillow(data))).mean() < 4
        else:
            np.testing.assert_array_equal(pixels, np.asarray(image))


def test_a_pipe_whose_writer_gives_up_is_truncated(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for data, reason in ((JPEG[:900], "cannot decode the JPEG: the data is truncated"), (b"", "there are no bytes")):
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        with pytest.raises(RuntimeError, match=f"{re.escape(str(pipe))}: .*{reason}"):
            load_image(pipe)
        writer.join()


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Do it again and again, in another thread."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def is_one_of(image: Array, pictures: list[Array]) -> bool:
    return any(image.shape == each.shape and bool((image == each).all()) for each in pictures)


def test_a_file_that_is_rewritten_while_it_is_read(tmp_path: Path) -> None:
    # Truncated and written anew, in the same place: what is read may be the beginning of one and the end of another.
    path = tmp_path / "image"
    contents = [make_jpeg(400, 300), make_jpeg(120, 90, 1), encode(make_image(300, 200), "PNG"), b"", b"junk" * 5000]
    path.write_bytes(contents[0])
    turn = cycle(contents)

    def rewrite() -> None:
        path.write_bytes(next(turn))

    with meanwhile(rewrite):
        for _ in range(300):
            try:
                assert load_image_batch([path], width=16, height=16).shape == (1, 16, 16, 3)
            except RuntimeError as error:
                assert str(path) in str(error)  # noqa: PT017 - either outcome is right.
    path.write_bytes(contents[0])
    assert to_numpy(load_image(path)).shape == (300, 400, 3)


def test_a_file_that_is_replaced_is_one_or_the_other(tmp_path: Path) -> None:
    # As programs do that write a file beside it and then rename that.
    path, beside = tmp_path / "image", tmp_path / "beside"
    contents = [make_jpeg(90, 70, 1), make_jpeg(90, 70, 2)]
    pictures = [np.asarray(decode_with_pillow(data)) for data in contents]
    path.write_bytes(contents[0])
    turn = cycle(contents)

    def replace() -> None:
        beside.write_bytes(next(turn))
        beside.rename(path)

    with meanwhile(replace):
        for _ in range(200):
            assert is_one_of(to_numpy(load_image(path)), pictures)


@pytest.mark.parametrize("optimize", [True, False])
def test_bytes_that_change_while_they_are_read_are_a_picture_or_an_error(*, optimize: bool) -> None:
    # They are read in place, more than once here and there: where the scan ends is known before it is decoded.
    data = bytearray(make_jpeg(500, 400, optimize=optimize, quality=95))
    sound = bytes(data)
    rng = np.random.default_rng(0)
    places = cycle(rng.integers(len(data) // 2, len(data) - 64, 997).tolist())
    pieces = cycle([piece.tobytes() for piece in rng.integers(0, 256, (500, 64), np.uint8)])

    def change() -> None:
        place = next(places)
        data[place : place + 64] = next(pieces)
        data[-64:] = b"\xff" * 64
        data[:] = sound

    with meanwhile(change):
        for _ in range(40):
            batch = None
            try:
                batch = load_image_batch([data], width=64, height=64)
            except RuntimeError as error:
                assert f"image of {len(data)} bytes: cannot" in str(error)  # noqa: PT017
            assert batch is None or batch.shape == (1, 64, 64, 3)
    np.testing.assert_array_equal(to_numpy(load_image(data)), np.asarray(decode_with_pillow(sound)))
