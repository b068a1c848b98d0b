"""Eight threads on one object of audio or video at once: each result is right, whatever the others do."""

from __future__ import annotations

import io
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.hammer import ROUNDS, THREADS, assert_agree, hammer

from spdl.io import (
    BSF,
    Decoder,
    Demuxer,
    FilterGraph,
    Muxer,
    VideoReader,
    audio_encode_config,
    convert_frames,
    create_reference_audio_frame,
    create_reference_video_frame,
    decode_packets,
    demux_audio,
    demux_video,
    get_buffer_desc,
    load_audio,
    load_video,
    load_video_batch,
    to_numpy,
    video_encode_config,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def pixels(frames: object) -> bytes:
    return to_numpy(convert_frames(frames)).tobytes()  # type: ignore[arg-type]


def test_packets_codecs_and_frames(clip: Callable[[str], Path]) -> None:
    path = clip("both_lossless.mkv")
    video, audio = demux_video(path), demux_audio(path)
    pictures, sound = decode_packets(video.clone()), decode_packets(audio.clone())
    returned = hammer(
        lambda: (repr(video), len(video), video.get_timestamps(), video.timestamp),
        lambda: (repr(video.codec), video.codec.frame_rate, repr(audio.codec), audio.codec.channel_layout),
        lambda: pixels(decode_packets(video.clone())),
        lambda: pixels(decode_packets(audio.clone())),
        lambda: (repr(pictures), pixels(pictures[3]), pixels(pictures[::9]), pictures.get_pts()),
        lambda: (repr(sound), len(sound), pixels(sound.clone())),
    )
    assert_agree(returned)
    assert returned[2][0] == pixels(pictures)


@pytest.mark.parametrize("kind", ["packets", "frames"])
def test_what_one_of_the_threads_consumes(clip: Callable[[str], Path], kind: str) -> None:
    path = clip("ffv1_tiny.mkv")
    expected = pixels(decode_packets(demux_video(path)))
    for _ in range(ROUNDS):
        packets = demux_video(path)
        frames = decode_packets(packets.clone())
        barrier = threading.Barrier(THREADS)

        def use(number: int) -> bytes | None:
            barrier.wait()  # noqa: B023 - all have run before the next round.
            try:
                if kind == "packets":
                    return pixels(decode_packets(packets if number == 0 else packets.clone()))  # noqa: B023
                return pixels(frames if number == 0 else frames.clone())  # noqa: B023
            except TypeError as error:
                assert "were consumed" in str(error)  # noqa: PT017 - either outcome is right.
                return None

        with ThreadPoolExecutor(THREADS) as pool:
            assert {it for it in pool.map(use, range(THREADS)) if it is not None} == {expected}


def test_demuxers_and_readers(clip: Callable[[str], Path]) -> None:
    path = clip("both_lossless.mkv")
    reader = VideoReader(path, width=16)
    with Demuxer(path) as demuxer:
        returned = hammer(
            lambda: pixels(decode_packets(demuxer.demux_video((0.4, 0.8)))),
            lambda: pixels(decode_packets(demuxer.demux_audio((0.1, 0.3)))),
            lambda: (demuxer.has_audio(), demuxer.num_streams, demuxer.duration, repr(demuxer.video_codec)),
            lambda: to_numpy(reader.read_frames([9, 2, 20])).tobytes(),
            lambda: pixels(reader.decode([5])),
            lambda: (len(reader), reader.key_frames, reader.index),
        )
    assert_agree(returned)


def test_a_demuxer_that_one_of_the_threads_closes(clip: Callable[[str], Path]) -> None:
    path = clip("ffv1_tiny.mkv")
    expected = pixels(decode_packets(demux_video(path)))
    for _ in range(ROUNDS):
        demuxer = Demuxer(path)

        def use(number: int, demuxer: Demuxer = demuxer) -> bytes | None:
            try:
                if number == 0:
                    demuxer.close()
                return pixels(decode_packets(demuxer.demux_video()))
            except RuntimeError as error:
                assert "the Demuxer was closed" in str(error)  # noqa: PT017 - either outcome is right.
                return None

        with ThreadPoolExecutor(THREADS) as pool:
            assert {it for it in pool.map(use, range(THREADS)) if it is not None} <= {expected}


def test_decoders_and_bit_stream_filters(clip: Callable[[str], Path]) -> None:
    path = clip("both_lossless.mkv")
    video, audio = demux_video(path), demux_audio(path)
    pictures, sounds = Decoder(video.codec), Decoder(audio.codec)
    pictures.set_buffer_size(4)
    filters = BSF(video.codec, "null"), BSF(audio.codec, "null")

    def count_pictures() -> int:
        return sum(len(it) for it in pictures.streaming_decode_packets(video.clone()))

    def count_samples() -> int:
        return sum(len(it) for it in sounds.streaming_decode_packets(audio.clone()))

    returned = hammer(
        count_pictures,
        count_samples,
        lambda: len(filters[0].filter(video.clone())),
        lambda: len(filters[1].filter(audio.clone())),
    )
    # Whichever thread took them, each packet was decoded once.
    pieces = [it for it in returned[0] if isinstance(it, int)]
    assert sum(pieces) + sum(len(it) for it in pictures.flush()) == THREADS * ROUNDS * len(video)
    samples = [it for it in returned[1] if isinstance(it, int)]
    assert sum(samples) + sum(len(it) for it in sounds.flush()) == THREADS * ROUNDS * len(decode_packets(audio.clone()))
    assert_agree(returned[2:])


def test_whole_calls(clip: Callable[[str], Path]) -> None:
    path = clip("both_lossless.mkv")
    returned = hammer(
        lambda: to_numpy(load_audio(path, timestamp=(0.1, 0.4))).tobytes(),
        lambda: to_numpy(load_video_batch([path] * 3, num_frames=4, width=8, height=8, num_threads=2).clips).tobytes(),
    )
    assert_agree(returned)


def test_encoders_and_a_muxer() -> None:
    file = io.BytesIO()
    muxer = Muxer(file, format="matroska")
    video = muxer.add_encode_stream(video_encode_config(height=24, width=32), encoder="ffv1")
    audio = muxer.add_encode_stream(
        audio_encode_config(num_channels=1, sample_rate=8000, sample_fmt="s16"), encoder="pcm_s16le"
    )
    lock = threading.Lock()
    count = [0, 0]
    picture = np.arange(24 * 32 * 3, dtype=np.uint8).reshape(1, 24, 32, 3)
    sound = np.arange(80, dtype=np.int16).reshape(80, 1)

    def write_picture() -> None:
        with lock:  # Times go on.
            packets = video.encode(create_reference_video_frame(picture, "rgb24", 25, count[0]))
            count[0] += 1
            assert packets is not None
            muxer.write(0, packets)

    def write_sound() -> None:
        with lock:
            packets = audio.encode(create_reference_audio_frame(sound, "s16", 8000, 80 * count[1]))
            count[1] += 1
            assert packets is not None
            muxer.write(1, packets)

    with muxer.open():
        hammer(write_picture, write_sound, muxer.flush, lambda: audio.frame_size)
        with pytest.raises(RuntimeError, match=r"is not after|begin before"):
            hammer(
                lambda: video.encode(create_reference_video_frame(picture, "rgb24", 25, 0)),
                lambda: audio.encode(create_reference_audio_frame(sound, "s16", 8000, 0)),
            )
    pictures = to_numpy(load_video(file.getvalue()))
    assert len(pictures) == count[0]
    assert (pictures == picture).all()
    samples = to_numpy(load_audio(file.getvalue(), filter_desc=None))
    np.testing.assert_array_equal(samples, np.tile(sound, (count[1], 1)))


def test_packets_that_all_pickle(clip: Callable[[str], Path]) -> None:
    video, audio = demux_video(clip("both_lossless.mkv")), demux_audio(clip("both_lossless.mkv"))
    returned = hammer(
        lambda: pixels(decode_packets(pickle.loads(pickle.dumps(video)))),
        lambda: pixels(decode_packets(pickle.loads(pickle.dumps(audio)))),
    )
    assert_agree(returned)
    assert returned[0][0] == pixels(decode_packets(video))


def test_a_graph_for_video() -> None:
    array = np.arange(4 * 24 * 32 * 3, dtype=np.uint8).reshape(4, 24, 32, 3)
    frames = create_reference_video_frame(array, "rgb24", 25, 0)
    graph = FilterGraph(f"{get_buffer_desc(frames)},hflip,buffersink")
    taken: list[int] = []

    def send() -> None:
        graph.add_frames(frames.clone())
        found = graph.get_frames()
        taken.append(0 if found is None else len(found))  # type: ignore[arg-type]

    hammer(send, graph.dump, lambda: repr(graph))
    assert sum(taken) == 4 * len(taken)
