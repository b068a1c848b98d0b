"""Packets as pickles: they decode as before, and damaged ones are errors."""

import gc
import io
import pickle
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.av import encoded
from tests.io.av.sources import Sound
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import (
    AudioPackets,
    ImagePackets,
    Muxer,
    VideoPackets,
    audio_encode_config,
    convert_frames,
    create_reference_audio_frame,
    create_reference_video_frame,
    decode_packets,
    demux_audio,
    demux_config,
    demux_image,
    demux_video,
    to_numpy,
    video_encode_config,
)

Packets = AudioPackets | VideoPackets | ImagePackets


def decoded(packets: Any) -> tuple[tuple[int, ...], bytes]:
    array = to_numpy(convert_frames(decode_packets(packets.clone(), filter_desc=None)))
    return array.shape, array.tobytes()


def video(encoder: str = "mpeg4", **window: Any) -> VideoPackets:
    file = io.BytesIO()
    muxer = Muxer(file, format="matroska")
    config = video_encode_config(height=48, width=64, frame_rate=25, gop_size=5)
    made = muxer.add_encode_stream(config, encoder=encoder)
    pictures = np.random.default_rng(0).integers(0, 256, (12, 48, 64, 3), np.uint8)
    with muxer.open():
        packets = made.encode(create_reference_video_frame(pictures, "rgb24", 25, 0))
        assert packets is not None
        muxer.write(0, packets)
    return demux_video(file.getvalue(), **window)


def audio(encoder: str = "aac", container: str = "mp4", sample_fmt: str = "flt", **window: Any) -> AudioPackets:
    file = io.BytesIO()
    muxer = Muxer(file, format=container)
    config = audio_encode_config(num_channels=2, sample_rate=48000, sample_fmt=sample_fmt)
    made = muxer.add_encode_stream(config, encoder=encoder)
    samples = np.random.default_rng(0).standard_normal((9000, 2)) / 8
    array = samples.astype(np.float32) if sample_fmt == "flt" else (samples * 2**15).astype(np.int16)
    with muxer.open():
        packets = made.encode(create_reference_audio_frame(array, sample_fmt, 48000, 0))
        if packets is not None:
            muxer.write(0, packets)
    return demux_audio(file.getvalue(), **window)


KINDS: dict[str, Callable[[], Packets]] = {
    "mpeg4": video,
    "ffv1": lambda: video("ffv1"),
    "mjpeg": lambda: video("mjpeg"),
    "a window": lambda: video(timestamp=("0.28", 0.4)),
    "aac": audio,
    "flac": lambda: audio("flac", "flac", "s16"),
    "alac": lambda: audio("alac", "ipod", "s16"),
    "pcm": lambda: audio("pcm_s16le", "wav", "s16"),
    "a window of sound": lambda: audio(timestamp=(0.05, "1/10")),
    "jpeg": lambda: demux_image(make_jpeg(64, 48)),
    "png": lambda: demux_image(encode(make_image(64, 48), "PNG")),
    "gif": lambda: demux_image(encode(make_image(64, 48).convert("P"), "GIF")),
    "named": lambda: demux_image(make_jpeg(64, 48), demux_config=demux_config(format="jpeg_pipe")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_they_decode_as_before(kind: str, protocol: int) -> None:
    packets = KINDS[kind]()
    copy = pickle.loads(pickle.dumps(packets, protocol))
    assert type(copy) is type(packets)
    assert repr(copy) == repr(packets)
    assert properties(copy) == properties(packets)
    assert decoded(copy) == decoded(packets)
    assert pickle.dumps(copy, protocol) == pickle.dumps(packets, protocol)


def properties(packets: Any) -> dict[str, Any]:
    found = {name: getattr(packets, name) for name in dir(packets) if not name.startswith("_") and name != "codec"}
    of_codec = {
        f"codec.{name}": getattr(packets.codec, name) for name in dir(packets.codec) if not name.startswith("_")
    }
    called = {name: value() for name, value in found.items() if name == "get_timestamps"}
    return {name: value for name, value in (found | of_codec).items() if not callable(value)} | called


CLIPS = ["h264.mp4", "hevc.mp4", "vp9.webm", "av1.mp4", "mp3.mp3", "opus.ogg", "vorbis.ogg", "aac.m4a", "wavpack.wv"]


@pytest.mark.parametrize("name", CLIPS)
def test_clips_of_the_ffmpeg_command(clip: Callable[[str], Path], name: str) -> None:
    from tests.io.av.media import CLIPS as known  # noqa: PLC0415, N811 - another module's constant.

    if name not in known:
        pytest.skip(f"there is no clip {name}")
    path = clip(name)
    packets: Any = demux_video(path) if known[name].pictures is not None else demux_audio(path)
    # What is skipped at both ends is written beside the packets.
    assert decoded(pickle.loads(pickle.dumps(packets))) == decoded(packets)


def test_another_process_reads_them() -> None:
    packets = video()
    program = (
        "import pickle, sys\n"
        "from spdl.io import *\n"
        "packets = pickle.load(sys.stdin.buffer)\n"
        "array = to_numpy(convert_frames(decode_packets(packets, filter_desc=None)))\n"
        "sys.stdout.buffer.write(array.tobytes())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(packets), capture_output=True, check=True)
    assert done.stdout == decoded(packets)[1]


def test_content_travels_beside_the_pickle() -> None:
    packets = video()
    buffers: list[pickle.PickleBuffer] = []
    small = pickle.dumps(packets, 5, buffer_callback=buffers.append)
    assert len(small) < 200
    assert len(buffers) == 1
    assert decoded(pickle.loads(small, buffers=buffers)) == decoded(packets)


@pytest.mark.parametrize("kind", ["mpeg4", "aac", "jpeg", "named"])
def test_bytes_without_pickle(kind: str) -> None:
    packets = KINDS[kind]()
    data = content(packets)
    assert packets.__getstate__() == data
    assert decoded(type(packets).deserialize(data)) == decoded(packets)
    view = memoryview(bytearray(data))
    shown = type(packets).deserialize_view(view)
    with pytest.raises(BufferError):
        view.obj.append(1)  # type: ignore[attr-defined]
    del view
    gc.collect()
    assert decoded(shown) == decoded(packets)


def test_a_view_is_no_copy() -> None:
    data = bytearray(content(video("mjpeg")))
    before = decoded(VideoPackets.deserialize(bytes(data)))
    shown = VideoPackets.deserialize_view(memoryview(data))
    copied = VideoPackets.deserialize(data)
    start = data.index(b"\xff\xd8\xff")
    end = data.index(b"\xff\xd9", start)
    data[end - 200 : end - 100] = bytes(100)
    try:
        after = decoded(shown)
    except RuntimeError:
        after = None
    assert after != before
    assert decoded(copied) == before


def test_a_view_is_dropped_with_the_packets() -> None:
    data = bytearray(content(audio()))
    packets = AudioPackets.deserialize_view(data)
    frames = decode_packets(packets)
    del packets, frames
    gc.collect()
    data.append(1)  # Nothing holds it any more.


def test_consumed_packets_cannot_be_pickled() -> None:
    packets = video()
    decode_packets(packets)
    with pytest.raises(TypeError, match="were consumed"):
        pickle.dumps(packets)
    with pytest.raises(TypeError, match="were consumed"):
        packets.__getstate__()


def content(packets: Any) -> bytes:
    data: bytes = packets.__reduce_ex__(4)[1][1]
    return data


# Damage. The header holds 8 bytes that tell the kind of file, the version, the checksum, the size and the kind.
_HEADER = struct.Struct("<8sIIQQ")


def sealed(data: bytes) -> bytes:
    """Return the bytes with the size and the checksum that they should have."""
    magic, version, _, _, kind = _HEADER.unpack_from(data)
    size = struct.pack("<QQ", len(data), kind)
    body = size + data[_HEADER.size :]
    return struct.pack("<8sII", magic, version, zlib.crc32(body)) + body


def test_the_checksum_is_crc_32() -> None:
    data = content(video())
    assert sealed(data) == data


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: b"", "these 0 bytes are not pickled packets"),
        (lambda data: data[:31], "these 31 bytes are not pickled packets"),
        (lambda data: b"x" + data[1:], "are not pickled packets: they do not begin as those do"),
        (lambda data: data[:8] + b"\4" + data[9:], "in version 4 of their format, and this release reads version 3"),
        (lambda data: data[:-1], r"damaged: there are \d+ bytes, and there should be \d+"),
        (lambda data: data + b"\0", "damaged: there are"),
        (lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:], "their checksum is wrong"),
        (lambda data: sealed(data + b"\0"), "more follows than there should be"),
        (lambda data: sealed(data[:-64]), "a length is wrong"),
        (lambda data: sealed(data[:-1] + b"\1"), "a length is wrong"),
        (lambda data: sealed(data.replace(b"mpeg4", b"mpegX", 1)), 'name the codec "mpegX".*FFmpeg'),
        (lambda data: sealed(data.replace(b"mpeg4", b"pcm_u", 1)), 'name the codec "pcm_u"'),
        (lambda data: sealed(data.replace(b"yuv420p", b"yuv999p", 1)), 'name the format "yuv999p"'),
        (
            lambda data: content(audio()),
            "these are pickled AudioPackets, not VideoPackets: use AudioPackets.deserialize",
        ),
        (lambda data: content(demux_image(make_jpeg(8, 8))), "these are pickled ImagePackets, not VideoPackets"),
    ],
)
def test_damage_is_an_error(change: Callable[[bytes], bytes], complaint: str) -> None:
    data = content(video())
    with pytest.raises(RuntimeError, match=f"^deserialize: .*{complaint}"):
        VideoPackets.deserialize(change(data))


@pytest.mark.parametrize("wrong", [3, "text", None, np.zeros((2, 2), np.uint8)])
def test_what_are_no_bytes(wrong: Any) -> None:
    with pytest.raises((TypeError, BufferError)):
        VideoPackets.deserialize(wrong)


@pytest.mark.parametrize("kind", ["mpeg4", "ffv1", "aac", "flac", "pcm", "jpeg", "named"])
def test_mutated_bytes_are_errors_or_decode(kind: str) -> None:
    """Each change has the right checksum, as if somebody had made it on purpose."""
    packets = KINDS[kind]()
    data = content(packets)
    generator = random.Random(kind)
    # Few of the bytes say what the packets are.
    first = data.find(bytes(64))
    outcomes = {"read": 0, "refused": 0}
    for turn in range(700):
        changed = bytearray(data)
        for _ in range(generator.choice([1, 1, 2, 8])):
            limit = len(data) if turn % 3 == 0 or first < 0 else min(first, 600)
            place = generator.randrange(_HEADER.size, max(limit, _HEADER.size + 1))
            changed[place] = generator.choice([0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)])
        if turn % 10 == 0:
            del changed[generator.randrange(_HEADER.size, len(changed)) :]
        try:
            restored = type(packets).deserialize(sealed(bytes(changed)))
        except RuntimeError:
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        try:
            decoded(restored)
            content(restored)
        except (RuntimeError, MemoryError):
            continue
    assert min(outcomes.values()) > 20


def test_a_depth_that_the_frames_do_not_have() -> None:
    """FFmpeg's FFV1 decoder believes the depth, and would write beyond its frames."""
    data = bytearray(content(video("ffv1")))
    place = data.index(b"bgr0") + 4 + 8 + 4  # Behind the bit rate and the depth that the container says.
    assert data[place - 4 : place + 4] == b"\x18\0\0\0\0\0\0\0"
    data[place] = 127
    with pytest.raises(RuntimeError, match="damaged: the depth is 127"):
        VideoPackets.deserialize(sealed(bytes(data)))


def test_no_prefix_is_read() -> None:
    data = content(audio())
    for size in [*range(400), *range(400, len(data), 997)]:
        with pytest.raises(RuntimeError):
            AudioPackets.deserialize(data[:size])
        if size >= _HEADER.size:
            with pytest.raises(RuntimeError):
                AudioPackets.deserialize(sealed(data[:size]))


def test_packets_of_a_window_tell_samples_when_they_are_unpickled(tmp_path: Path) -> None:
    """Of two files, one behind the other, the second has another rate, which a window says, and does not miss."""
    parts = []
    for rate in (44100, 48000):
        encoded.audio("libmp3lame", "-id3v2_version", 0, sound=Sound(rate, 1, 0.7)).make(tmp_path / "part.mp3")
        parts.append((tmp_path / "part.mp3").read_bytes())
    packets = demux_audio(b"".join(parts), timestamp=(0.5, 1.2))
    for each in (packets.clone(), pickle.loads(pickle.dumps(packets))):
        with pytest.raises(RuntimeError, match="its rate changes from"):
            decode_packets(each, filter_desc=None)
