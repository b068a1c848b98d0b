"""Sound files that were cut off: an error where the file says its size, otherwise what was before the cut."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pytest
from tests.io.av.encoded import audio
from tests.io.av.sources import Sound

from spdl.io import AudioReader, demux_config, load_audio, load_audio_batch, to_numpy

PARTIAL = demux_config(format_options={"err_detect": "ignore_err"})
_SOUND = Sound(44100, 2, 1.5)

# Each says how many bytes or samples of sound are in it, or where its packets end.
_SIZED = {
    "s16.wav": ("pcm_s16le",),
    "rf64.wav": ("pcm_s16le", "-rf64", "always"),
    "adpcm.wav": ("adpcm_ms",),
    "s16.w64": ("pcm_s16le",),
    "s24.caf": ("pcm_s24be",),
    "alac.caf": ("alac",),
    "s16.aiff": ("pcm_s16be",),
    "s16.au": ("pcm_s16be",),
    "u8.voc": ("pcm_u8",),
    "flac.flac": ("flac",),
    "wavpack.wv": ("wavpack",),
    "tta.tta": ("tta",),
    "flac.ogg": ("flac",),
    "vorbis.ogg": ("libvorbis",),
    "opus.opus": ("libopus", "-ar", 48000),
    "aac.m4a": ("aac",),
    "f32.mka": ("pcm_f32le",),
    "wma.wma": ("wmav2",),
}
# Of PCM, what there is can be had.
_PLAIN = ["s16.wav", "rf64.wav", "s24.caf", "s16.au"]
_BLOCK = 12  # The bytes of whole samples of 16 and of 24 bits.
# These say the size of each frame.
_FRAMED = {"mp2.mp2": ("mp2",), "mp2.mpg": ("mp2",), "mp2.mkv": ("mp2",), "aac.aac": ("aac",), "ac3.ac3": ("ac3",)}
_UNSIZED = {"mp3.mp3": ("libmp3lame",)}


@functools.cache
def _file(name: str) -> bytes:
    encoder, *options = (_SIZED | _FRAMED | _UNSIZED)[name]
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        audio(str(encoder), *options, sound=_SOUND).make(path)
        return path.read_bytes()


@functools.cache
def _whole(name: str) -> npt.NDArray[np.float32]:
    return to_numpy(load_audio(_file(name)))


def _cuts(name: str) -> list[int]:
    size = len(_file(name))
    drawn = random.Random(name)
    return [size - 1, size - 2, size - 4, size - 9, size - 44] + [drawn.randrange(size // 8, size) for _ in range(12)]


@pytest.mark.parametrize("name", _SIZED)
def test_no_cut_file_is_short_without_a_word(name: str) -> None:
    try:
        whole = _whole(name)
    except RuntimeError as error:
        if name != "u8.voc":
            raise
        pytest.skip(f"not every FFmpeg has a demuxer of VOC: {error}")
    for cut in _cuts(name):
        data = _file(name)[:cut]
        try:
            found = to_numpy(load_audio(data))
        except RuntimeError as error:
            assert f"{cut} bytes: " in str(error)  # noqa: PT017
            continue
        # What was cut off is no sound.
        assert np.array_equal(found, whole), cut


@pytest.mark.parametrize("name", _PLAIN)
def test_what_there_is_can_be_had(name: str) -> None:
    whole = _whole(name)
    size = len(_file(name))
    for cut in _cuts(name):
        data = _file(name)[: cut - (cut - size) % _BLOCK]
        with pytest.raises(RuntimeError, match=r"the file ends after \d+ samples of sound, but its header says 66150:"):
            load_audio(data)
        with pytest.raises(RuntimeError, match="it is cut off"):
            load_audio_batch([data], sample_rate=None)
        with pytest.raises(RuntimeError, match="it is cut off"):
            AudioReader(data).read()
        found = to_numpy(load_audio(data, demux_config=PARTIAL))
        assert 0 < found.shape[1] < whole.shape[1]
        assert np.array_equal(found, whole[:, : found.shape[1]])
        # Before the cut all is well.
        assert np.array_equal(to_numpy(load_audio(data, timestamp=(0, 0.1))), whole[:, :4410])


@pytest.mark.parametrize("name", _FRAMED)
def test_no_cut_frame_is_sound(name: str) -> None:
    whole = _whole(name)
    for cut in _cuts(name):
        try:
            found = to_numpy(load_audio(_file(name)[:cut]))
        except RuntimeError as error:
            assert f"{cut} bytes: " in str(error)  # noqa: PT017
            continue
        # The cut is between two frames, or behind the last one.
        assert np.array_equal(found, whole[:, : found.shape[1]]), cut


@pytest.mark.parametrize("name", _UNSIZED)
def test_files_without_a_size_give_what_is_before_the_cut(name: str) -> None:
    whole = _whole(name)
    for cut in _cuts(name):
        found = to_numpy(load_audio(_file(name)[:cut]))
        size = found.shape[1]
        assert size <= whole.shape[1]
        assert np.array_equal(found, whole[:, :size])


def test_open_sizes() -> None:
    """Programs that write to a pipe cannot know the size."""
    au = bytearray(_file("s16.au"))
    au[8:12] = b"\xff" * 4
    caf = bytearray(_file("s24.caf"))
    place = caf.index(b"data") + 4
    caf[place : place + 8] = b"\xff" * 8
    for name, data in (("s16.au", au), ("s24.caf", caf)):
        assert np.array_equal(to_numpy(load_audio(bytes(data))), _whole(name))
        assert load_audio(bytes(data[: len(data) - 1200])).shape[1] > 1000


def test_a_header_that_counts_itself_as_sound() -> None:
    data = bytearray(_file("s16.wav"))
    place = data.index(b"data") + 4
    data[place : place + 4] = len(data).to_bytes(4, "little")
    assert np.array_equal(to_numpy(load_audio(bytes(data))), _whole("s16.wav"))
    with pytest.raises(RuntimeError, match="it is cut off"):
        load_audio(bytes(data[:-50]))
