"""Sound files that end oddly: tags and other things behind the sound, parts of samples, sizes that are not known."""

from __future__ import annotations

import functools
import io
import random
import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.io.av.encoded import audio
from tests.io.av.ffmpeg import need_encoder, pipe_ffmpeg
from tests.io.av.sources import Sound

from spdl.io import AudioReader, decode_config, demux_config, load_audio, load_audio_batch, load_wav, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable

_SOUND = Sound(44100, 2, 1.5)


@functools.cache
def _file(name: str, encoder: str, *options: object, sound: Sound = _SOUND) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        audio(encoder, *options, sound=sound).make(path)
        return path.read_bytes()


_BARE = ("-write_xing", 0, "-id3v2_version", 0)
# Nothing but frames, one after the other.
_FRAMES: dict[str, tuple[object, ...]] = {
    "mp3.mp3": ("libmp3lame",),
    "bare.mp3": ("libmp3lame", *_BARE),
    "mp2.mp2": ("mp2",),
    "aac.aac": ("aac",),
    "ac3.ac3": ("ac3",),
    "flac.flac": ("flac",),
    "wavpack.wv": ("wavpack",),
    "tta.tta": ("tta",),
}


def _frames(name: str) -> bytes:
    encoder, *options = _FRAMES[name]
    return _file(name, str(encoder), *options)


def _id3v1() -> bytes:
    return b"TAG" + b"A title".ljust(125, b"\0")


def _enhanced() -> bytes:
    return (b"TAG+" + b"A long title").ljust(227, b"\0") + _id3v1()


def _ape(*, header: bool) -> bytes:
    item = struct.pack("<II", 7, 0) + b"Title\0A title"
    version, size = 2000 if header else 1000, len(item) + 32

    def end(flags: int) -> bytes:
        return b"APETAGEX" + struct.pack("<IIII", version, size, 1, flags) + bytes(8)

    return end(0xA0000000) + item + end(0x80000000) if header else item + end(0)


def _lyrics3() -> bytes:
    text = b"LYRICSBEGININD0000210LYR00012[00:01]Hello"
    return text + b"%06dLYRICS200" % len(text)


def _old_lyrics3() -> bytes:
    return b"LYRICSBEGIN" + b"la " * 50 + b"LYRICSEND"


def _id3v2() -> bytes:
    text = b"TIT2\0\0\0\6\0\0\0title"
    size = bytes([0, 0, 0, len(text)])
    return b"ID3\4\0\x10" + size + text + b"3DI\4\0\x10" + size


_TAGS: dict[str, Callable[[], bytes]] = {
    "ID3v1": _id3v1,
    "enhanced ID3v1": _enhanced,
    "ID3v2": _id3v2,
    "APEv1": lambda: _ape(header=False),
    "APEv2": lambda: _ape(header=True),
    "APEv1, ID3v1": lambda: _ape(header=False) + _id3v1(),
    "Lyrics3": _lyrics3,
    "Lyrics3, ID3v1": lambda: _lyrics3() + _id3v1(),
    "old Lyrics3, ID3v1": lambda: _old_lyrics3() + _id3v1(),
    "Lyrics3, APEv2, ID3v1": lambda: _lyrics3() + _ape(header=True) + _id3v1(),
}


@pytest.mark.parametrize("tag", _TAGS)
@pytest.mark.parametrize("name", _FRAMES)
def test_tags_are_no_sound(name: str, tag: str) -> None:
    data = _frames(name)
    whole = to_numpy(load_audio(data))
    tagged = data + _TAGS[tag]()
    assert np.array_equal(to_numpy(load_audio(tagged)), whole)
    reader = AudioReader(tagged)
    assert reader.num_samples == whole.shape[1]
    assert np.array_equal(to_numpy(reader.read_samples(50_000)), to_numpy(AudioReader(data).read_samples(50_000)))


@pytest.mark.parametrize("name", ["flac.flac", "wavpack.wv", "tta.tta"])
def test_all_samples_are_there(name: str) -> None:
    """The frames behind which a tag begins are not lost."""
    found = to_numpy(load_audio(_frames(name) + _ape(header=False), filter_desc=None))
    sound = _SOUND.as_dtype("i2")
    assert np.array_equal(found.reshape(sound.shape) if found.shape == sound.shape else found.T, sound)


def _junk(kind: str) -> bytes:
    return {
        "zeros": bytes(700),
        "ones": b"\xff" * 300,
        "text": b"<html>Not found</html>" * 20,
        "three bytes": b"\1\2\3",
    }[kind]


# AAC's header may begin with ones.
@pytest.mark.parametrize("kind", ["zeros", "ones", "text", "three bytes"])
@pytest.mark.parametrize("name", ["mp3.mp3", "bare.mp3", "mp2.mp2", "flac.flac", "wavpack.wv", "tta.tta"])
def test_what_is_no_frame_is_no_sound(name: str, kind: str) -> None:
    data = _frames(name)
    assert np.array_equal(to_numpy(load_audio(data + _junk(kind))), to_numpy(load_audio(data)))


@pytest.mark.parametrize("name", ["mp3.mp3", "bare.mp3", "mp2.mp2"])
def test_what_is_no_frame_among_frames_is_damage(name: str) -> None:
    data = _frames(name)
    with pytest.raises(RuntimeError, match="cannot decode the audio stream 0"):
        load_audio(data + _junk("text") + _frames("mp2.mp2" if name == "mp2.mp2" else "bare.mp3"))


class _Counted(io.BytesIO):
    """A file that counts how often it is read."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


@pytest.mark.parametrize("kind", ["ID3v2", "ID3v1", "APEv2", "old Lyrics3"])
def test_many_tags_are_not_many_reads(kind: str) -> None:
    """Each may be a request to a server."""
    tag = {
        "ID3v2": _id3v2(),
        "ID3v1": _id3v1(),
        "APEv2": _ape(header=True),
        "old Lyrics3": b"LYRICSBEGI" + b"x" * 5000 + b"LYRICSEND",
    }[kind]
    data = _frames("mp3.mp3")
    file = _Counted(data + tag * 1000)
    found = to_numpy(load_audio(file, timestamp=(0, 0.5)))
    assert np.array_equal(found, to_numpy(load_audio(data, timestamp=(0, 0.5))))
    assert file.reads < 60


@pytest.mark.parametrize("behind", [b"hello world\n" * 20, b"hello", bytes(188), bytes(100), _id3v1(), b"x" * 70_000])
def test_what_is_no_packet_of_mpeg_ts_is_no_sound(behind: bytes) -> None:
    data = _file("aac.ts", "aac", "-aac_pns", 0)
    whole = to_numpy(load_audio(data))
    assert np.array_equal(to_numpy(load_audio(data + behind)), whole)
    assert AudioReader(data + behind).num_samples == whole.shape[1]
    with pytest.raises(RuntimeError, match="it ends in the middle"):
        load_audio(data + data[:100])


@pytest.mark.parametrize("behind", [bytes(40), b"TAG" + bytes(125), b"x" * 3000, b"data" + bytes(20)])
@pytest.mark.parametrize("options", [("pcm_s16le",), ("pcm_s24le",), ("adpcm_ms",)])
def test_what_lies_behind_wave64_is_no_sound(options: tuple[str, ...], behind: bytes) -> None:
    """The ffmpeg command does not open such a file."""
    data = _file("sound.w64", *options)
    whole = to_numpy(load_audio(data))
    assert np.array_equal(to_numpy(load_audio(data + behind)), whole)
    assert np.array_equal(to_numpy(AudioReader(data + behind).read_samples(50_000)), whole[:, 50_000:])


@pytest.mark.parametrize("size", [30, 60, 150])
def test_a_header_that_was_cut(size: int) -> None:
    with pytest.raises(RuntimeError, match=r"it ends before its header does.*is cut off, or damaged"):
        load_audio(_file("opus.ogg", "libopus", sound=Sound(48000, 1, 1.0))[:size])


def _chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(content) if size is None else size) + content + b"\0" * (len(content) & 1)


def _wav(content: bytes, size: int | None = None, *, behind: bytes = b"", riff: int | None = None) -> bytes:
    """Return 16-bit stereo sound."""
    form = _chunk(b"fmt ", struct.pack("<HHIIHH", 1, 2, 8000, 32000, 4, 16))
    body = b"WAVE" + form + _chunk(b"data", content, size) + behind
    return b"RIFF" + struct.pack("<I", len(body) if riff is None else riff) + body


_SAMPLES = np.random.default_rng(7).integers(-20_000, 20_000, (2500, 2)).astype("<i2")


def _read(data: bytes) -> npt.NDArray[np.int16]:
    """Return the samples as every way to read them gives them."""
    found = to_numpy(load_audio(data, filter_desc=None))
    assert np.array_equal(to_numpy(load_audio(data)), (found.T / 32768).astype("f4"))
    assert np.array_equal(to_numpy(AudioReader(data).read()), to_numpy(load_audio(data)))
    assert np.array_equal(
        to_numpy(load_audio_batch([data], sample_rate=None, num_channels=2).samples)[0], to_numpy(load_audio(data))
    )
    return np.asarray(found)


@pytest.mark.parametrize("behind", [b"", b"\0", _chunk(b"LIST", b"INFO"), _id3v1()])
@pytest.mark.parametrize("extra", [0, 1, 2, 3])
@pytest.mark.parametrize("frames", [1, 1024, 2500])
def test_wav_that_ends_within_a_sample(frames: int, extra: int, behind: bytes) -> None:
    data = _wav(_SAMPLES[:frames].tobytes() + b"\1\2\3"[:extra], behind=behind)
    assert np.array_equal(_read(data), _SAMPLES[:frames])
    assert np.array_equal(load_wav(data), _SAMPLES[:frames])


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF - 36])
def test_wav_from_a_pipe(size: int) -> None:
    data = _wav(_SAMPLES.tobytes(), size, riff=size)
    assert np.array_equal(_read(data), _SAMPLES)
    assert np.array_equal(load_wav(data), _SAMPLES)
    assert np.array_equal(_read(data + b"\1\2\3"), _SAMPLES)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF])
@pytest.mark.parametrize("name", [b"RF64", b"BW64"])
def test_wav_with_sizes_of_64_bits_from_a_pipe(name: bytes, size: int) -> None:
    """The ffmpeg command writes such, and does not read them itself."""
    data = _wav(_SAMPLES.tobytes(), 0xFFFFFFFF, riff=0xFFFFFFFF)
    data = name + data[4:12] + _chunk(b"ds64", struct.pack("<QQQI", size, size, 0, 0)) + data[12:]
    assert np.array_equal(_read(data), _SAMPLES)
    assert np.array_equal(load_wav(data), _SAMPLES)


def test_wav_without_sound() -> None:
    data = _wav(b"", behind=_chunk(b"LIST", bytes(40)))
    assert load_wav(data).shape == (0, 2)
    with pytest.raises(RuntimeError, match="there are no frames"):
        load_audio(data)


def test_the_message_of_a_cut_file_counts_samples() -> None:
    data = _wav(_SAMPLES.tobytes())
    for cut in (1, 3, 4, 4000):
        left = 2500 - -(-cut // 4)
        with pytest.raises(
            RuntimeError, match=f"the file ends after {left} samples of sound, but its header says 2500:"
        ):
            load_audio(data[:-cut])


def test_a_packet_that_ends_within_a_sample_is_damage_among_others() -> None:
    """Matroska has packets of any size."""
    data = bytearray(_file("s16.mka", "pcm_s16le"))
    first = data.index(b"\xa3", data.index(b"\x1f\x43\xb6\x75"))
    # The size of the block is stored in the bytes behind its mark; the last two bytes become something to skip.
    width = {8: 1, 4: 2, 2: 3, 1: 4}[1 << (data[first + 1].bit_length() - 1 - 4)] if data[first + 1] >= 16 else 4
    size = int.from_bytes(data[first + 1 : first + 1 + width], "big") & ((1 << 7 * width) - 1)
    end = first + 1 + width + size
    data[first + 1 : first + 1 + width] = ((1 << 7 * width) | (size - 2)).to_bytes(width, "big")
    data[end - 2 : end] = b"\xec\x80"
    with pytest.raises(RuntimeError, match="a packet ends within a sample, and it is not the last one"):
        load_audio(bytes(data))


def _aiff(content: bytes, frames: int, behind: bytes = b"") -> bytes:
    """Return 16-bit mono sound of 8 kHz."""
    common = struct.pack(">hIh", 1, frames, 16) + b"\x40\x0b\xfa" + bytes(7)
    body = b"AIFFCOMM" + struct.pack(">I", len(common)) + common
    body += b"SSND" + struct.pack(">III", len(content) + 8, 0, 0) + content + b"\0" * (len(content) & 1) + behind
    return b"FORM" + struct.pack(">I", len(body)) + body


@pytest.mark.parametrize("extra", [b"", b"\1"])
def test_aiff_that_promises_more_than_its_sound(extra: bytes) -> None:
    """A sound that is there as a whole is not cut off, whatever another chunk says."""
    sound = np.arange(3000, dtype=">i2")
    for frames in (2999, 3000, 3001, 9000):
        data = _aiff(sound.tobytes() + extra, frames, b"NAME\0\0\0\2ab")
        assert np.array_equal(to_numpy(load_audio(data, filter_desc=None))[:, 0], sound)
    with pytest.raises(RuntimeError, match="ends after 2990 samples of sound, but its header says 3000"):
        load_audio(_aiff(sound.tobytes(), 3000)[:-20])


@pytest.mark.parametrize("behind", [b"\1", bytes(100), _id3v1()])
def test_au_with_something_behind_its_sound(behind: bytes) -> None:
    sound = np.arange(3000, dtype=">i2")
    data = b".snd" + struct.pack(">IIIII", 24, sound.nbytes, 3, 8000, 1) + sound.tobytes()
    assert np.array_equal(to_numpy(load_audio(data + behind, filter_desc=None))[:, 0], sound)


@pytest.mark.parametrize("seed", range(20))
def test_voc_that_counts_eight_bytes_too_few(seed: int) -> None:
    """SoX does, in its blocks of 16 bits: what follows looks like another block, and promises nothing."""
    sound = np.random.default_rng(seed).integers(-20_000, 20_000, 4000).astype("<i2")
    sound[-4] = 0x5500 | random.Random(seed).choice([1, 2, 5, 9, 77])
    head = b"Creative Voice File\x1a" + struct.pack("<HHH", 26, 0x10A, 0x1129)
    block = b"\x09" + struct.pack("<I", sound.nbytes + 4)[:3]
    data = head + block + struct.pack("<IBBHI", 8000, 16, 1, 4, 0) + sound.tobytes() + b"\0"
    found = to_numpy(load_audio(data, filter_desc=None))[:, 0]
    assert len(found) >= 3996
    assert np.array_equal(found[:3996], sound[:3996])


@pytest.mark.parametrize("samples", [100, 320, 641, 7777])
@pytest.mark.parametrize("padded", [False, True])
def test_gsm_in_wav(samples: int, *, padded: bool) -> None:
    """Blocks have 65 bytes. SoX counts the byte that makes the chunk even."""
    data = bytearray(_file("gsm.wav", "libgsm_ms", sound=Sound(8000, 1, samples / 8000)))
    place = data.index(b"data") + 4
    size = int.from_bytes(data[place : place + 4], "little")
    if padded:
        data[place : place + 4] = (size + size % 2).to_bytes(4, "little")
    found = to_numpy(load_audio(bytes(data), filter_desc=None))
    raw = pipe_ffmpeg(bytes(data[: place + 4 + size]), "-i", "-", "-f", "s16le", "-")
    assert np.array_equal(found[:, 0], np.frombuffer(raw, "<i2"))
    assert len(found) == size // 65 * 320


@pytest.mark.parametrize("content", ["g722", "noise"])
def test_the_way_out_for_sound_without_a_header(content: str) -> None:
    sound = Sound(16000, 1, 1.0)
    data = _file("x.g722", "g722", sound=sound) if content == "g722" else random.Random(1).randbytes(3000)
    with pytest.raises(RuntimeError, match=r"can be read if its format is named: demux_config\(format="):
        load_audio(data)
    if content == "g722":
        try:
            found = load_audio(data, demux_config=demux_config(format="g722"))
        except RuntimeError as error:
            pytest.skip(f"not every FFmpeg has a demuxer of it: {error}")
        assert found.shape == (1, 16000)


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("rate", [8000, 16000, 32000])
def test_speex_of_each_band(rate: int, frames: int) -> None:
    need_encoder("libspeex")
    data = _file("speex.ogg", "libspeex", "-frames_per_packet", frames, sound=Sound(rate, 1, 1.2))
    raw = pipe_ffmpeg(data, "-c:a", "libspeex", "-i", "-", "-f", "f32le", "-")
    expected = np.frombuffer(raw, "<f4")
    found = to_numpy(load_audio(data))[0]
    assert found.shape == expected.shape
    # FFmpeg's own decoder fills upper bands with other noise.
    assert np.corrcoef(found, expected)[0, 1] > 0.9
    reader = AudioReader(data)
    assert reader.num_samples == len(expected)
    assert np.array_equal(to_numpy(reader.read_samples(rate // 2, rate))[0], found[rate // 2 : rate])


def test_flac_damage_behind_the_first_of_joined_files_is_an_error() -> None:
    """Behind the samples that the header says, what cannot be decoded is no sound only if none follows."""
    first = _file("short.flac", "flac", sound=Sound(44100, 1, 0.5))
    second = _file("long.flac", "flac", sound=Sound(44100, 1, 2.0))
    random_bytes = random.Random(49)
    errors = 0
    for _ in range(20):
        damaged = bytearray(second)
        at = random_bytes.randrange(len(second) // 4, len(second) // 2)
        damaged[at : at + 20] = random_bytes.randbytes(20)
        try:
            load_audio(bytes(damaged))
        except RuntimeError:
            errors += 1
            with pytest.raises(RuntimeError, match="cannot decode the audio"):
                load_audio(first + bytes(damaged))
    assert errors


def _claim(size: int) -> bytes:
    """Return the header of an ID3v2 tag that says it is so long."""
    return b"ID3\4\0\0" + bytes(size >> shift & 127 for shift in (21, 14, 7, 0))


class _Pipe(io.RawIOBase):
    """A file that can be read from its beginning to its end only."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int:
        return self._file.readinto(into)


@pytest.mark.parametrize("claimed", [1000, 10_000_000, 100_000_000])
@pytest.mark.parametrize("source", [bytes, io.BytesIO, _Pipe])
def test_a_tag_that_does_not_end_before_a_frame_is_damage(claimed: int, source: Callable[[bytes], Any]) -> None:
    data = _frames("bare.mp3") + _claim(claimed) + _file("other.mp3", "libmp3lame", *_BARE, sound=Sound(44100, 2, 1.0))
    with pytest.raises(RuntimeError, match="cannot decode the audio stream 0"):
        load_audio(source(data))
    kept = load_audio(source(data), decode_config=decode_config(decoder_options={"err_detect": "ignore_err"}))
    expected = pipe_ffmpeg(data, "-i", "pipe:", "-f", "f32le", "-c:a", "pcm_f32le", "pipe:")
    assert abs(to_numpy(kept).shape[-1] - len(expected) // 8) < 2 * 1152


@pytest.mark.parametrize("source", [bytes, io.BytesIO, _Pipe])
def test_a_large_tag_between_frames_is_none_of_the_sound(source: Callable[[bytes], Any]) -> None:
    first, second = _frames("bare.mp3"), _file("other.mp3", "libmp3lame", *_BARE, sound=Sound(44100, 2, 1.0))
    picture = random.Random(3).randbytes(300_000)
    found = to_numpy(load_audio(source(first + _claim(len(picture)) + picture + second)))
    assert np.array_equal(found, to_numpy(load_audio(first + second)))


def test_a_tag_at_the_end_that_has_no_footer_is_no_sound() -> None:
    first, second = _frames("flac.flac"), _file("other.flac", "flac", sound=Sound(44100, 2, 1.0))
    found = to_numpy(load_audio(first + _claim(50_000) + bytes(50_000) + second + _claim(40_000) + bytes(40_000)))
    expected = np.concatenate([to_numpy(load_audio(it)) for it in (first, second)], axis=1)
    assert np.array_equal(found, expected)


def test_many_false_tags_of_flac_are_not_many_reads() -> None:
    data = _frames("flac.flac")
    file = _Counted(data + _claim(10_000_000) * 2000)
    assert np.array_equal(to_numpy(load_audio(file)), to_numpy(load_audio(data)))
    assert file.reads < 60


def test_a_header_of_flac_that_claims_more_than_there_is_is_damage() -> None:
    data = _frames("flac.flac")
    claim = b"fLaC\0\0\0\x22" + bytes(34) + b"\x86\x70\0\0"
    with pytest.raises(RuntimeError, match="cannot decode the audio stream 0"):
        load_audio(data + claim + data)
