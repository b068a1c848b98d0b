"""Files whose checksums tell that a bit is wrong, and Ogg files that lack pages: never other samples or frames."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import audio, both, video
from tests.io.av.ffmpeg import FFmpegError, run_ffmpeg
from tests.io.av.sources import Pictures, Sound

from spdl.io import (
    AudioReader,
    Demuxer,
    VideoReader,
    decode_config,
    demux_config,
    load_audio,
    load_audio_batch,
    load_video,
    load_video_batch,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.io.av.encoded import Clip

_SOUND = Sound(48000, 2, 2)
_LONG = Sound(48000, 2, 6)
_SHORT_PAGES = ("-page_duration", 500_000)
_PICTURES = Pictures(64, 48, 24)
_SOUNDS: dict[str, Clip] = {
    "flac.flac": audio("flac", sound=_SOUND),
    "flac.mka": audio("flac", sound=_SOUND),
    "wavpack.wv": audio("wavpack", sound=_SOUND),
    "float.wv": audio("wavpack", "-sample_fmt", "fltp", sound=_SOUND),
    "tta.tta": audio("tta", sound=_SOUND),
    "ac3.ac3": audio("ac3", sound=_SOUND),
    "eac3.mka": audio("eac3", sound=_SOUND),
}
# FFmpeg says of these that a checksum is wrong, and goes on.
_LOGGED: dict[str, Clip] = {
    "truehd.mka": audio("truehd", "-strict", -2, sound=_SOUND),
    "mlp.mka": audio("mlp", "-strict", -2, sound=_SOUND),
}
_OGG: dict[str, Clip] = {
    "vorbis.ogg": audio("libvorbis", *_SHORT_PAGES, sound=_LONG),
    "opus.ogg": audio("libopus", *_SHORT_PAGES, sound=_LONG),
    "flac.ogg": audio("flac", *_SHORT_PAGES, sound=_LONG),
}
_VIDEOS: dict[str, Clip] = {
    "theora.ogv": video("libtheora", "-g", 8, pictures=_PICTURES),
    "ffv1.mkv": video("ffv1", "-level", 3, "-slicecrc", 1, pictures=_PICTURES),
}
_ALL = _SOUNDS | _LOGGED | _OGG | _VIDEOS


@functools.cache
def _file(name: str) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        _ALL[name].make(path)
        return path.read_bytes()


def _read(data: bytes, name: str) -> Any:
    return to_numpy(load_video(data) if name in _VIDEOS else load_audio(data))


def _flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def _complaints(path: Path) -> str:
    """Return what the ffmpeg command says of a file when it compares checksums."""
    try:
        run_ffmpeg("-xerror", "-err_detect", "crccheck+explode", "-i", path, "-f", "null", "-")
    except FFmpegError as error:
        return str(error)
    return oracle.errors(path)


@pytest.mark.parametrize("name", sorted(_ALL))
def test_a_wrong_bit_is_an_error(name: str, tmp_path: Path) -> None:
    data = _file(name)
    drawn = random.Random(name)
    path = tmp_path / name
    found = 0
    for _ in range(4):
        # Where nothing but packets lies.
        damaged = _flipped(data, drawn.randrange(len(data) // 4, len(data) * 3 // 4), drawn.randrange(8))
        path.write_bytes(damaged)
        if not _complaints(path):
            continue
        found += 1
        with pytest.raises(RuntimeError, match=r"cannot (decode the|read the file)"):
            _read(damaged, name)
        if name in _VIDEOS:
            with pytest.raises(RuntimeError, match="cannot"):
                load_video_batch([damaged], num_frames=24, width=64, height=48)
            with pytest.raises((RuntimeError, IndexError)):
                VideoReader(damaged).read_frames(list(range(24)))
        else:
            with pytest.raises(RuntimeError, match="cannot"):
                load_audio_batch([damaged], sample_rate=None)
            with pytest.raises(RuntimeError, match="cannot"):
                AudioReader(damaged).read()
    assert found >= 3


# Only the decoder knows how long packets of E-AC-3 are.
@pytest.mark.parametrize("name", [*(it for it in _SOUNDS if it != "eac3.mka"), *_LOGGED, *_OGG])
def test_sound_before_the_wrong_bit(name: str) -> None:
    data = _file(name)
    damaged = _flipped(data, len(data) * 3 // 4, 2)
    expected = _read(data, name)[:, :24000]
    start = AudioReader(data).start_time
    assert np.array_equal(to_numpy(load_audio(damaged, timestamp=(0, start + 0.5))), expected)


@pytest.mark.parametrize("name", [*_SOUNDS, *_LOGGED, "ffv1.mkv"])
def test_damage_can_be_kept(name: str) -> None:
    data = _file(name)
    damaged = _flipped(data, len(data) // 2, 3)
    config = decode_config(decoder_options={"err_detect": "ignore_err"})
    load: Callable[..., Any] = load_video if name in _VIDEOS else load_audio
    kept = to_numpy(load(damaged, decode_config=config))
    assert kept.ndim == (4 if name in _VIDEOS else 2)


def _pages(data: bytes) -> tuple[list[bytes], int]:
    """Return the pages of an Ogg file, and how many of them have headers only."""
    pages: list[bytes] = []
    place = 0
    while place < len(data):
        segments = data[place + 27 : place + 27 + data[place + 26]]
        size = 27 + len(segments) + sum(segments)
        pages.append(data[place : place + size])
        place += size
    return pages, sum(page[6:14] == bytes(8) for page in pages)


@pytest.mark.parametrize("name", [*_OGG, "theora.ogv"])
def test_a_lost_page_is_an_error(name: str) -> None:
    pages, first = _pages(_file(name))
    assert len(pages) - first >= 3
    for lost in range(first + 1, len(pages) - 1):
        data = b"".join(pages[:lost] + pages[lost + 1 :])
        with pytest.raises(
            RuntimeError, match=r"stream 0 are damaged or missing before byte \d+, behind \d\.\d+ s\. A"
        ):
            _read(data, name)


def _copied(data: bytes, tmp_path: Path) -> Any:
    path = tmp_path / "file.ogg"
    path.write_bytes(data)
    return oracle.samples(path)


@pytest.mark.parametrize("name", list(_OGG))
def test_what_lacks_nothing(name: str, tmp_path: Path) -> None:
    whole = _file(name)
    pages, first = _pages(whole)
    whats = {
        "begun in the middle": b"".join(pages[:first] + pages[first + 2 :]),
        "ended between pages": b"".join(pages[:-2]),
        "followed by a tag": whole + b"TAG" + bytes(125),
        "a tag between pages": b"".join(pages[:-2]) + b"APETAGEX" * 9 + b"".join(pages[-2:]),
        "twice": whole + whole,
    }
    for what, data in whats.items():
        expected = _copied(data, tmp_path)
        assert np.array_equal(to_numpy(load_audio(data)), expected.T), what


@pytest.mark.parametrize("name", list(_OGG))
def test_lost_pages_can_be_passed_by(name: str, tmp_path: Path) -> None:
    pages, first = _pages(_file(name))
    lost = first + 2
    data = b"".join(pages[:lost] + pages[lost + 1 :])
    config = demux_config(format_options={"err_detect": "ignore_err"})
    passed = to_numpy(
        load_audio(data, demux_config=config, decode_config=decode_config(decoder_options={"err_detect": "ignore_err"}))
    )
    assert passed.shape[1] == len(_copied(data, tmp_path))


def test_damage_of_one_stream_is_not_that_of_another(tmp_path: Path) -> None:
    path = tmp_path / "both.ogv"
    both(("libtheora", "-g", 8), ("libvorbis", *_SHORT_PAGES), Sound(48000, 2, 2)).make(path)
    pages, first = _pages(path.read_bytes())
    serials = [page[14:18] for page in pages]
    whole = {load: to_numpy(load(path.read_bytes())) for load in (load_video, load_audio)}
    for number in range(first, len(pages)):
        page = pages[number]
        data = b"".join([*pages[:number], _flipped(page, len(page) // 2, 1), *pages[number + 1 :]])
        is_video = serials[number] == serials[0]
        damaged, other = (load_video, load_audio) if is_video else (load_audio, load_video)
        with pytest.raises(RuntimeError, match=f"pages of stream {0 if is_video else 1} are damaged"):
            damaged(data)
        assert np.array_equal(to_numpy(other(data)), whole[other])


def test_packets_one_after_the_other_meet_the_damage() -> None:
    data = _file("vorbis.ogg")
    damaged = _flipped(data, len(data) // 2, 1)
    with Demuxer(damaged) as demuxer:
        packets = demuxer.streaming_demux(demuxer.audio_stream_index, num_packets=1)
        for _ in range(10):
            next(packets)
        with pytest.raises(RuntimeError, match="damaged or missing"):
            list(packets)
