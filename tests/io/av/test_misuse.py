"""Sources that fail in the middle, objects that are used at once or in the wrong order, and numbers that are absurd."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg

from spdl.io import (
    AudioReader,
    Decoder,
    Demuxer,
    VideoReader,
    convert_frames,
    decode_packets,
    demux_audio,
    demux_video,
    load_audio,
    load_video,
    load_video_batch,
    sample_decode_video,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Failing(io.BytesIO):
    """A file that fails while it is told to."""

    fails = False

    def read(self, size: int | None = -1, /) -> bytes:
        if self.fails:
            raise OSError("no network")
        return super().read(size)


def pixels(src: Any, **keywords: Any) -> Any:
    return to_numpy(load_video(src, **keywords))


# Larger than what is read at once.
_LARGE = "rawvideo.avi"


@pytest.mark.parametrize("window", [None, (0.4, 0.8)])
def test_a_file_that_fails_for_a_while(clip: Callable[[str], Path], window: Any) -> None:
    file = _Failing(clip(_LARGE).read_bytes())
    with Demuxer(file) as demuxer:
        expected = to_numpy(convert_frames(decode_packets(demuxer.demux_video(window))))
        demuxer.demux_video()
        file.fails = True
        for _ in range(2):
            with pytest.raises((OSError, RuntimeError)):
                demuxer.demux_video(window)
        file.fails = False
        assert demuxer.num_streams == 1
        assert np.array_equal(to_numpy(convert_frames(decode_packets(demuxer.demux_video(window)))), expected)


def test_a_reader_whose_file_fails_for_a_while(clip: Callable[[str], Path]) -> None:
    file = _Failing(clip(_LARGE).read_bytes())
    reader = VideoReader(file)
    expected = to_numpy(reader.read_frames([30, 3]))
    file.fails = True
    with pytest.raises(OSError, match="no network"):
        reader.read_frames([45])
    file.fails = False
    assert np.array_equal(to_numpy(reader.read_frames([30, 3])), expected)


def test_a_file_that_uses_its_own_demuxer(clip: Callable[[str], Path]) -> None:
    class Calling(io.BytesIO):
        demuxer: Any = None

        def read(self, size: int | None = -1, /) -> bytes:
            if self.demuxer is not None:
                self.demuxer.num_streams  # noqa: B018 - asking is enough.
            return super().read(size)

    file = Calling(clip("h264.mkv").read_bytes())
    demuxer = Demuxer(file)
    demuxer.demux_video()
    file.demuxer = demuxer
    with pytest.raises(RuntimeError, match=r"used from within the read\(\)"):
        demuxer.demux_video()


def test_hidden_pictures_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "hidden.webm"
    encoder = need_encoder("libvpx")
    source = "testsrc2=size=64x48:rate=25:duration=4"
    for number in (1, 2):
        options = ["-c:v", encoder, "-auto-alt-ref", 1, "-lag-in-frames", 16, "-b:v", "100k", "-g", 100]
        log = ["-pass", number, "-passlogfile", str(tmp_path / "log")]
        run_ffmpeg("-y", "-f", "lavfi", "-i", source, *options, *log, path)
    count = len(oracle.frame_times(path))
    packets = demux_video(path)
    assert len(oracle.packets(path)) > count
    assert len(packets) == len(packets.get_timestamps()) == count == len(VideoReader(path))
    assert len(decode_packets(packets.clone())) == count
    assert len(sample_decode_video(packets.clone(), [0, count - 1])) == 2
    with pytest.raises(IndexError):
        sample_decode_video(packets, [count])


@pytest.mark.parametrize("num_frames", [2**62, 2**40, 2**58 + 1])
def test_absurd_batches_are_refused(clip: Callable[[str], Path], num_frames: int) -> None:
    for storage in (None, np.zeros(64, np.uint8)):
        with pytest.raises((RuntimeError, ValueError)):
            load_video_batch([clip("h264.mp4")], num_frames=num_frames, width=16, height=16, storage=storage)


def test_threads_that_share_a_decoder_of_pickled_packets(clip: Callable[[str], Path]) -> None:
    path = clip("mjpeg.mov")
    packets = demux_video(path)
    data = pickle.dumps(packets, 5)
    decoder = Decoder(packets.codec, filter_desc=None)
    counts = [0] * 4

    def work(number: int) -> None:
        for _ in range(60):
            for frames in decoder.streaming_decode_packets(pickle.loads(data)):
                counts[number] += len(frames)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sum(counts) + sum(len(it) for it in decoder.flush()) == 4 * 60 * len(packets)


def test_a_decoder_after_a_failed_flush(clip: Callable[[str], Path]) -> None:
    path = clip("h264.mp4")
    packets = oracle.packets(path)
    data = bytearray(path.read_bytes())
    # Damage the end of the last packet that is decoded.
    end = data.rindex(b"moov") - 4
    size = packets[-1].size
    data[end - size + 5 : end] = b"\xa5" * (size - 5)
    decoder = Decoder(demux_video(path).codec, filter_desc=None)
    with pytest.raises(RuntimeError, match="cannot decode"):
        for _ in (*decoder.streaming_decode_packets(demux_video(bytes(data))), *decoder.flush()):
            pass
    found = [*decoder.streaming_decode_packets(demux_video(path)), *decoder.flush()]
    assert sum(map(len, found)) >= len(packets)


def test_each_list_of_packets_keeps_its_window(clip: Callable[[str], Path]) -> None:
    path = clip("h264.mp4")
    first, second = demux_video(path, timestamp=(0, 1)), demux_video(path, timestamp=(1, 2))
    decoder = Decoder(first.codec)
    decoder.set_buffer_size(5)
    pieces = decoder.streaming_decode_packets(first)
    count = len(next(pieces))
    count += sum(len(it) for it in decoder.streaming_decode_packets(second))
    count += sum(len(it) for it in decoder.flush())
    assert count == 50


def test_filters_without_an_end(clip: Callable[[str], Path]) -> None:
    assert len(decode_packets(demux_video(clip("h264.mp4"), timestamp=(0, 0.2)), "tpad=stop=-1", num_frames=10)) == 10
    frames = decode_packets(demux_audio(clip("s16.wav")), "apad", num_frames=90)
    assert len(frames) > 0


def test_streaming_while_something_else_reads(clip: Callable[[str], Path]) -> None:
    with Demuxer(clip("both.mkv")) as demuxer:
        pieces = demuxer.streaming_demux([0, 1], num_packets=10)
        next(pieces)
        demuxer.demux_video((0.2, 0.4))
        with pytest.raises(RuntimeError, match="the Demuxer was used for something else"):
            next(pieces)


def test_a_sample_without_a_picture(clip: Callable[[str], Path], tmp_path: Path) -> None:
    data = bytearray(clip("mjpeg.mov").read_bytes())
    table = data.index(b"stsz")
    count = struct.unpack_from(">I", data, table + 12)[0]
    sizes = list(struct.unpack_from(f">{count}I", data, table + 16))
    sizes[9] += sizes[10]
    sizes[10] = 0
    struct.pack_into(f">{count}I", data, table + 16, *sizes)
    path = tmp_path / "left_out.mov"
    path.write_bytes(data)
    expected = len(oracle.frame_hashes(path))
    assert pixels(bytes(data)).shape[0] == expected == count - 1
    reader = VideoReader(bytes(data))
    assert len(reader) == expected
    assert np.array_equal(to_numpy(reader.read()), pixels(bytes(data)))


@pytest.mark.parametrize("container", ["ts", "mp4"])
def test_a_key_frame_that_is_none(tmp_path: Path, container: str) -> None:
    path = tmp_path / f"refreshed.{container}"
    source = "testsrc2=size=64x48:rate=25:duration=4"
    options = ["-c:v", need_encoder("libx264"), "-x264-params", "intra-refresh=1:keyint=20", "-bf", 0]
    run_ffmpeg("-y", "-f", "lavfi", "-i", source, *options, path)
    whole = pixels(path)
    reader = VideoReader(path, exact=False)
    times = reader.timestamps
    expected = to_numpy(reader.read())
    for frame in (86, 93, 25, 59, 61):
        assert np.array_equal(to_numpy(VideoReader(path).read_frames([frame]))[0], expected[frame])
    for first, last in ((30, 40), (50, 63), (57, 62)):
        assert np.array_equal(pixels(path, timestamp=(times[first], times[last])), whole[first:last])


def test_forked_processes_read_for_themselves(clip: Callable[[str], Path]) -> None:
    program = f"""
import os, sys
from spdl.io import VideoReader, to_numpy
reader = VideoReader({str(clip("h264.mkv"))!r})
whole = to_numpy(reader.read()).copy()
children = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        wrong = 0
        for i in range(60):
            frame = (i * 7 + number * 13) % len(whole)
            wrong += not (to_numpy(reader.read_frames([frame]))[0] == whole[frame]).all()
        os._exit(min(wrong, 100))
    children.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
"""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=100, env=environment
    )
    assert done.stdout.strip() == "[0, 0, 0, 0]"


def test_an_odd_shape_does_not_fail_a_batch(tmp_path: Path, clip: Callable[[str], Path]) -> None:
    path = tmp_path / "wide.mkv"
    run_ffmpeg("-f", "lavfi", "-i", "testsrc2=size=8192x16:rate=25:duration=0.2", "-c:v", "ffv1", path)
    batch = load_video_batch(
        [path, clip("h264.mp4")], num_frames=2, width=256, height=256, mode="crop", on_error="skip"
    )
    assert batch.clips.shape[0] == 2


@pytest.mark.parametrize("codec", ["adpcm_ms", "adpcm_ima_wav", "adpcm_yamaha"])
@pytest.mark.parametrize("rate", [8000, 22050])
def test_windows_of_sound_that_must_be_counted(tmp_path: Path, codec: str, rate: int) -> None:
    path = tmp_path / "sound.wav"
    source = f"sine=frequency=440:sample_rate={rate}:duration=3,aformat=channel_layouts=stereo"
    run_ffmpeg("-f", "lavfi", "-i", source, "-c:a", need_encoder(codec), path)
    whole = to_numpy(load_audio(path))
    assert whole.shape[1] == len(oracle.samples(path))
    reader = AudioReader(path)
    assert reader.num_samples == whole.shape[1]
    for start, stop in ((0, 10), (10001, 12000), (20000, 20003)):
        assert np.array_equal(to_numpy(reader.read_samples(start, stop)), whole[:, start:stop])


def test_sixteen_bits_of_gray_have_all_levels(clip: Callable[[str], Path]) -> None:
    path = clip("ffv1_gray16.mkv")
    expected = pixels(path)
    assert np.abs(to_numpy(VideoReader(path).read()).astype(int) - expected).max() <= 1


@pytest.mark.parametrize("name", ["elementary.h264", "mpeg2.mpg", "mpeg4.avi"])
def test_times_of_videos_that_must_be_counted(clip: Callable[[str], Path], name: str) -> None:
    reader = VideoReader(clip(name))
    assert np.allclose(np.diff(reader.timestamps), 0.04, atol=1e-6)
    if name == "mpeg4.avi":
        assert decode_packets(demux_video(clip(name))).get_timestamps() == pytest.approx(reader.timestamps, abs=1e-6)
    moments = [reader.timestamps[i] for i in (0, 7, 20)]
    assert np.array_equal(to_numpy(reader.read_at(moments)), to_numpy(reader.read_frames([0, 7, 20])))
