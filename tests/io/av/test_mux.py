"""Muxer: several streams, remuxing, and the file that is written, checked by the ffmpeg command."""

import gc
import io
import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.ffmpeg import need_ffmpeg, run_ffprobe
from tests.io.av.muxing import RATE, encode_video, pictures, tones, write_all

from spdl.io import (
    AudioPackets,
    Muxer,
    VideoEncodeConfig,
    VideoPackets,
    audio_encode_config,
    convert_frames,
    create_reference_audio_frame,
    create_reference_video_frame,
    decode_packets,
    demux_audio,
    demux_video,
    load_audio,
    load_video,
    to_numpy,
    video_encode_config,
)

Array = np.ndarray[Any, Any]


def both_media(dst: Any, *, sound_encoder: str = "aac", **options: Any) -> None:
    muxer = Muxer(dst, **options)
    video = muxer.add_encode_stream(video_encode_config(height=48, width=64, frame_rate=RATE), encoder="mpeg4")
    audio = muxer.add_encode_stream(audio_encode_config(num_channels=2, sample_rate=48000), encoder=sound_encoder)
    frames = create_reference_video_frame(pictures(30), "rgb24", RATE, 0)
    sound = create_reference_audio_frame(np.ascontiguousarray(tones(48000).T), "fltp", 48000, 0)
    write_all(muxer, [video, audio], [[frames], [sound]])


def test_sound_and_pictures_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "both.mp4"
    both_media(path)
    assert to_numpy(load_video(path)).shape == (30, 48, 64, 3)
    assert load_audio(path).shape[0] == 2
    assert [stream["codec_type"] for stream in oracle.streams(path)] == ["video", "audio"]
    assert float(oracle.container(path)["duration"]) == pytest.approx(1, abs=0.05)
    assert oracle.errors(path) == ""


@pytest.mark.parametrize("container", ["matroska", "mp4", "mov"])
def test_remuxed_packets_are_those_of_the_source(container: str) -> None:
    source = io.BytesIO()
    # Its decoder begins with no noise of its own, whatever the container says of the beginning.
    both_media(source, sound_encoder="ac3", format="matroska")
    video, audio = demux_video(source.getvalue()), demux_audio(source.getvalue())
    file = io.BytesIO()
    muxer = Muxer(file, format=container)
    muxer.add_remux_stream(video.codec)
    muxer.add_remux_stream(audio.codec)
    with muxer.open():
        muxer.write(0, video)
        muxer.write(1, audio)
    assert payloads(demux_video(file.getvalue())) == payloads(video)
    assert payloads(demux_audio(file.getvalue())) == payloads(audio)
    assert demux_video(file.getvalue()).get_timestamps() == pytest.approx(video.get_timestamps(), abs=0.001)
    expected = to_numpy(load_video(source.getvalue()))
    np.testing.assert_array_equal(to_numpy(load_video(file.getvalue())), expected)


def payloads(packets: VideoPackets | AudioPackets) -> int:
    """Return a number that differs if a byte of a packet does, but for those that a container has sound begin with."""
    decoded: Any = to_numpy(convert_frames(decode_packets(packets.clone(), filter_desc=None)))
    return hash((decoded if isinstance(packets, VideoPackets) else decoded[:, -40_000:]).tobytes())


def test_remuxed_bytes_are_identical(tmp_path: Path) -> None:
    need_ffmpeg()
    source, copy = tmp_path / "source.mkv", tmp_path / "copy.mp4"
    both_media(source, sound_encoder="mp2")
    muxer = Muxer(copy)
    muxer.add_remux_stream(demux_video(source).codec)
    muxer.add_remux_stream(demux_audio(source).codec)
    with muxer.open():
        muxer.write(0, demux_video(source))
        muxer.write(1, demux_audio(source))
    hashes = [oracle_hashes(path) for path in (source, copy)]
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) > 60


def oracle_hashes(path: Path) -> list[str]:
    command = ("-of", "json", "-show_entries", "packet=data_hash", "-show_data_hash", "md5", path)
    return sorted(packet["data_hash"] for packet in json.loads(run_ffprobe(*command))["packets"])


def test_packets_are_not_consumed() -> None:
    packets = demux_video(encode_video(pictures(), encoder="mpeg4"))
    for _ in range(2):
        muxer = Muxer(io.BytesIO(), format="mp4")
        muxer.add_remux_stream(packets.codec)
        with muxer.open():
            muxer.write(0, packets)
    assert len(packets) == 12


def test_packets_of_another_codec_are_refused() -> None:
    packets = demux_video(encode_video(pictures(), encoder="mpeg4"))
    muxer = Muxer(io.BytesIO(), format="matroska")
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="ffv1")
    with muxer.open():
        with pytest.raises(RuntimeError, match='takes packets of the codec "ffv1", but these are of "mpeg4"'):
            muxer.write(0, packets)
        with pytest.raises(RuntimeError, match="no stream 1: the Muxer has 1"):
            muxer.write(1, packets)


# Files.


def half_written(dst: Any) -> Muxer:
    muxer = Muxer(dst)
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    muxer.open()
    packets = encoder.encode(create_reference_video_frame(pictures(), "rgb24", 25, 0))
    assert packets is not None
    muxer.write(0, packets)
    return muxer


@pytest.mark.parametrize("old", [b"old", None])
def test_a_file_appears_when_it_is_complete(tmp_path: Path, old: bytes | None) -> None:
    path = tmp_path / "clip.mp4"
    if old is not None:
        path.write_bytes(old)
        path.chmod(0o640)
    muxer = half_written(path)
    assert (path.read_bytes() if path.exists() else None) == old
    muxer.close()
    muxer.close()
    assert len(demux_video(path)) == 12
    assert [each.name for each in tmp_path.iterdir()] == ["clip.mp4"]
    if old is not None:
        assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("how", ["exception", "dropped"])
def test_an_abandoned_file_leaves_nothing(tmp_path: Path, how: str) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"old")
    muxer = half_written(path)
    assert len(list(tmp_path.iterdir())) == 2
    if how == "exception":
        with pytest.raises(ZeroDivisionError), muxer:
            raise ZeroDivisionError
        with pytest.raises(RuntimeError, match="was closed"):
            muxer.flush()
    del muxer
    gc.collect()
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["clip.mp4"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_remove_the_file(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    muxer = half_written(path)
    child = os.fork()
    if child == 0:
        del muxer
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    muxer.close()
    assert len(demux_video(path)) == 12


def test_what_encoders_hold_back_is_written_when_the_muxer_closes() -> None:
    file = io.BytesIO()
    muxer = Muxer(file, format="flac")
    encoder = muxer.add_encode_stream(audio_encode_config(num_channels=1, sample_rate=8000, sample_fmt="s16"))
    with muxer.open():
        assert encoder.encode(create_reference_audio_frame(np.ones((100, 1), np.int16), "s16", 8000, 0)) is None
    assert load_audio(file.getvalue()).shape == (1, 100)


def test_a_file_without_seek() -> None:
    class Pipe:
        def __init__(self) -> None:
            self.pieces: list[bytes] = []

        def write(self, piece: bytes) -> int:
            self.pieces.append(piece[:1000])
            return len(piece[:1000])

    pipe = Pipe()
    muxer = Muxer(pipe, format="matroska")  # type: ignore[arg-type]
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="ffv1")
    write_all(muxer, [encoder], [[create_reference_video_frame(pictures(), "rgb24", 25, 0)]])
    np.testing.assert_array_equal(to_numpy(load_video(b"".join(pipe.pieces))), pictures())
    muxer = Muxer(Pipe(), format="mp4")  # type: ignore[arg-type]
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match="does not support non seekable output"):
        muxer.open()


def test_a_file_is_written_from_its_position_on() -> None:
    file = io.BytesIO(b"before")
    file.seek(6)
    muxer = Muxer(file, format="mp4")
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    write_all(muxer, [encoder], [[create_reference_video_frame(pictures(), "rgb24", 25, 0)]])
    assert file.getvalue()[:6] == b"before"
    assert len(demux_video(file.getvalue()[6:])) == 12


@pytest.mark.parametrize("to_path", [True, False])
def test_the_index_can_be_moved_to_the_front(tmp_path: Path, to_path: bool) -> None:  # noqa: FBT001
    path, file = tmp_path / "clip.mp4", io.BytesIO()
    muxer = Muxer(path) if to_path else Muxer(file, format="mp4")
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    frames = create_reference_video_frame(pictures(), "rgb24", 25, 0)
    write_all(muxer, [encoder], [[frames]], muxer_config={"movflags": "+faststart"})
    data = path.read_bytes() if to_path else file.getvalue()
    assert data.index(b"moov") < data.index(b"mdat")
    assert len(demux_video(data)) == 12


def test_what_a_file_raises_comes_through() -> None:
    class Full(io.BytesIO):
        def write(self, piece: Any) -> int:
            raise OSError(28, "No space left on device")

    muxer = Muxer(Full(), format="mp4")
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(OSError, match="No space left"), muxer.open():
        pass


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("the system has no /dev/full")
    link = tmp_path / "clip.mkv"
    link.symlink_to(full)
    muxer = Muxer(link)
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match=r"clip\.mkv.*No space left on device"):
        write_all(muxer, [encoder], [[create_reference_video_frame(pictures(), "rgb24", 25, 0)]])


def test_wrong_places_and_formats(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"the name does not tell the file format.*suffix"):
        Muxer(tmp_path / "clip")
    with pytest.raises(RuntimeError, match='no muxer "bogus"'):
        Muxer(tmp_path / "clip", format="bogus")
    with pytest.raises(RuntimeError, match="save_image writes single images"):
        Muxer(tmp_path / "frame%03d.png")
    with pytest.raises(TypeError, match="`dst` must be a path"):
        Muxer(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`format` must be a file format, since an open file"):
        Muxer(io.BytesIO())
    muxer = Muxer(tmp_path / "missing" / "clip.mp4")
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match=r"missing/clip\.mp4': cannot write the file: No such file or directory"):
        muxer.open()


def test_the_order_of_calls() -> None:
    muxer = Muxer(io.BytesIO(), format="mp4")
    with pytest.raises(RuntimeError, match="has no streams: call add_encode_stream"):
        muxer.open()
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match="is not open: call open"):
        muxer.flush()
    with pytest.raises(TypeError, match="`config` must be a configuration"):
        muxer.add_encode_stream(3)  # type: ignore[call-overload]
    with muxer.open():
        with pytest.raises(RuntimeError, match="only be added before the Muxer is opened"):
            muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
        with pytest.raises(RuntimeError, match="was opened before"):
            muxer.open()
        assert encoder.encode(create_reference_video_frame(pictures(), "rgb24", 25, 0)) is not None
        encoder.flush()
        assert encoder.flush() is None
        with pytest.raises(RuntimeError, match="was flushed and takes no more"):
            encoder.encode(create_reference_video_frame(pictures(), "rgb24", 25, 20))
    with pytest.raises(RuntimeError, match="was closed"):
        muxer.write(0, demux_video(encode_video(pictures())))


def test_wrong_options_leave_no_file(tmp_path: Path) -> None:
    muxer = Muxer(tmp_path / "clip.mp4")
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match='muxer "mp4" has no option "bogus"'):
        muxer.open({"bogus": "1"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("height", 0, ValueError),
        ("width", "64", TypeError),
        ("frame_rate", 29.97, TypeError),
        ("frame_rate", (30, 0), ValueError),
        ("pix_fmt", "a\0b", ValueError),
        ("bit_rate", -2, ValueError),
        ("colorspace", 3, TypeError),
    ],
)
def test_configurations_are_checked(argument: str, value: Any, error: type[Exception]) -> None:
    good: dict[str, Any] = {"height": 48, "width": 64}
    with pytest.raises(error, match=f"`{argument}"):
        video_encode_config(**{**good, argument: value})


def test_frame_rates_in_any_form() -> None:
    forms: list[Any] = [(60, 2), Fraction(30), 30, np.int64(30)]
    made = {video_encode_config(height=1, width=1, frame_rate=form) for form in forms[:3]}
    assert made == {VideoEncodeConfig(height=1, width=1, frame_rate=(30, 1))}


def test_frames_need_not_be_decoded_anew() -> None:
    """Decoded frames say how they were encoded before, which is no order to do so again."""
    first = decode_packets(demux_video(encode_video(pictures(24), encoder="mpeg4", gop_size=1)), filter_desc=None)
    file = io.BytesIO()
    muxer = Muxer(file, format="matroska")
    config = video_encode_config(height=48, width=64, frame_rate=RATE, pix_fmt="yuv420p", gop_size=24)
    write_all(muxer, [muxer.add_encode_stream(config, encoder="mpeg4")], [[first]])
    assert len(file.getvalue()) < len(encode_video(pictures(24), encoder="mpeg4", gop_size=1))
    assert len(first) == 24
