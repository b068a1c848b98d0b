"""Files of Python's that sound and video are written to and read from, whatever their methods return."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.io import (
    Demuxer,
    Muxer,
    audio_encode_config,
    create_reference_audio_frame,
    demux_audio,
    demux_video,
    load_audio,
    load_video,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SOUND = np.arange(40_000, dtype=np.int16).reshape(-1, 1)


def _write(file: Any, container: str, *, between: Callable[[], object] = lambda: None) -> None:
    muxer = Muxer(file, format=container)
    lossless = {"mp4": "alac", "mov": "pcm_s16le", "matroska": "pcm_s16le", "flac": "flac", "wav": "pcm_s16le"}
    config = audio_encode_config(num_channels=1, sample_rate=8000, sample_fmt="s16")
    encoder = muxer.add_encode_stream(config, encoder=lossless[container])
    with muxer.open():
        for start in range(0, len(_SOUND), 8000):
            between()
            packets = encoder.encode(create_reference_audio_frame(_SOUND[start : start + 8000], "s16", 8000, start))
            if packets is not None:
                muxer.write(0, packets)
            muxer.flush()
        between()


def _read(data: bytes) -> Any:
    return to_numpy(load_audio(data, filter_desc="aformat=sample_fmts=s16"))


_CONTAINERS = ["wav", "mp4", "mov", "matroska", "flac"]


@pytest.mark.parametrize("container", _CONTAINERS)
def test_the_position_is_behind_what_was_written(container: str) -> None:
    file = io.BytesIO(b"before")
    file.seek(6)
    _write(file, container)
    assert file.tell() == len(file.getvalue())
    assert np.array_equal(_read(file.getvalue()[6:]), _SOUND)


@pytest.mark.parametrize("container", _CONTAINERS)
def test_a_user_who_moves_the_position_meanwhile(container: str) -> None:
    file = io.BytesIO()
    _write(file, container, between=lambda: file.seek(3))
    assert np.array_equal(_read(file.getvalue()), _SOUND)
    assert file.tell() == len(file.getvalue())


def test_a_file_that_was_opened_to_append(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    path.write_bytes(b"before")
    with path.open("ab") as file:
        _write(file, "wav")
    assert np.array_equal(_read(path.read_bytes()[6:]), _SOUND)
    with path.open("ab") as file, pytest.raises(RuntimeError, match="does not support non seekable output"):
        _write(file, "mp4")
    with path.open("ab", buffering=0) as raw:

        class Unnamed(io.RawIOBase):
            """A file that does not say that it appends."""

            def seekable(self) -> bool:
                return True

            def tell(self) -> int:
                return raw.tell()

            def seek(self, position: int, whence: int = 0, /) -> int:
                return raw.seek(position, whence)

            def write(self, piece: Any) -> int:
                return raw.write(piece)

        with pytest.raises(ValueError, match=r"was it opened to append\? Open it with \"wb\""):
            _write(Unnamed(), "wav")


@pytest.mark.parametrize("returned", [2**70, -1, 0, "3", 1.0, [], -(2**70), 10**9])
def test_a_write_that_returns_no_count(returned: Any) -> None:
    class File(io.BytesIO):
        def write(self, piece: Any) -> Any:
            super().write(piece)
            return returned

    with pytest.raises(
        ValueError, match=r"the file's write\(\) must return how many of the \d+ bytes it wrote, an int"
    ):
        _write(File(), "wav")


@pytest.mark.parametrize("returned", [2**70, -1, "3", None])
def test_a_tell_that_returns_no_position(clip: Callable[[str], Path], returned: Any) -> None:
    class File(io.BytesIO):
        def tell(self) -> Any:
            return returned

    with pytest.raises(ValueError, match=r"the file's tell\(\) must return its position, an int of at least 0"):
        _write(File(), "wav")
    with pytest.raises(ValueError, match=r"the file's tell\(\) must return its position, an int of at least 0"):
        Demuxer(File(clip("h264.mp4").read_bytes()))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("text", r"the file's read\(\) must return bytes, got 'text': open the file in binary mode"),
        (None, r"the file's read\(\) must return bytes, got None: a file that has nothing ready"),
        (7, r"the file's read\(\) must return bytes, got 7"),
        (["x" * 500], r"the file's read\(\) must return bytes, got \['x{70,80}\.\.\."),
    ],
)
def test_a_read_that_returns_no_bytes(clip: Callable[[str], Path], returned: Any, message: str) -> None:
    class File(io.BytesIO):
        def read(self, size: int | None = -1, /) -> Any:
            return returned

    for load in (load_audio, load_video, demux_audio, demux_video):
        with pytest.raises(TypeError, match=message):
            load(File(clip("both.mp4").read_bytes()))


def test_a_read_that_returns_too_much(clip: Callable[[str], Path]) -> None:
    data = clip("both.mp4").read_bytes()

    class File(io.BytesIO):
        def read(self, size: int | None = -1, /) -> Any:
            return data

    with pytest.raises(ValueError, match=r"returned \d+ bytes, more than the \d+ that it was asked for"):
        load_video(File(data))


def test_a_text_file(clip: Callable[[str], Path]) -> None:
    with clip("both.mp4").open(encoding="latin-1") as file, pytest.raises(TypeError, match="open the file in binary"):
        load_video(file)
