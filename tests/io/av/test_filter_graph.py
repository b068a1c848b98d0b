"""FilterGraph: video and sound through graphs of FFmpeg's filters."""

import io
from typing import Any

import numpy as np
import pytest
from tests.io.av.ffmpeg import has_another_version, pipe_ffmpeg
from tests.io.images import make_jpeg

from spdl.io import (
    AudioFrames,
    FilterGraph,
    ImageFrames,
    Muxer,
    VideoFrames,
    audio_encode_config,
    convert_frames,
    create_reference_audio_frame,
    create_reference_video_frame,
    decode_packets,
    demux_audio,
    demux_image,
    demux_video,
    get_abuffer_desc,
    get_buffer_desc,
    to_numpy,
    video_encode_config,
)

Array = np.ndarray[Any, Any]


def pictures(count: int = 6, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (count, 24, 32, 3), np.uint8)


def video(count: int = 6, seed: int = 0, pts: int = 0) -> VideoFrames:
    return create_reference_video_frame(pictures(count, seed), "rgb24", 25, pts)


def samples(count: int = 1000, channels: int = 2) -> Array:
    return np.random.default_rng(1).standard_normal((channels, count)).astype(np.float32)


def sound(count: int = 1000, channels: int = 2) -> AudioFrames:
    return create_reference_audio_frame(samples(count, channels), "fltp", 8000, 0)


def array_of(frames: Any) -> Array:
    assert frames is not None
    array: Array = to_numpy(convert_frames(frames))
    return array


def test_video_comes_out_as_video() -> None:
    graph = FilterGraph(f"{get_buffer_desc(video())},hflip,buffersink")
    for turn in range(3):
        graph.add_frames(video(4, turn, 4 * turn))
        frames = graph.get_frames()
        assert isinstance(frames, VideoFrames)
        assert frames.get_timestamps() == pytest.approx([(4 * turn + n) / 25 for n in range(4)])
        np.testing.assert_array_equal(array_of(frames), pictures(4, turn)[:, :, ::-1])
        assert graph.get_frames() is None
    graph.flush()
    assert graph.get_frames() is None


def test_sound_comes_out_as_sound() -> None:
    graph = FilterGraph(f"{get_abuffer_desc(sound())},aformat=channel_layouts=stereo,volume=2,abuffersink")
    graph.add_frames(sound())
    frames = graph.get_frames()
    assert isinstance(frames, AudioFrames)
    assert (len(frames), frames.sample_rate, frames.num_channels) == (1000, 8000, 2)
    np.testing.assert_allclose(array_of(frames), samples() * 2, rtol=1e-6)
    assert repr(graph) == "FilterGraph(inputs=['Parsed_abuffer_0'], outputs=['Parsed_abuffersink_3'])"


def test_two_videos_side_by_side() -> None:
    left, right = (get_buffer_desc(video(), label) for label in ("left", "right"))
    graph = FilterGraph(f"{left} [a]; {right} [b]; [a] [b] hstack, buffersink")
    graph.add_frames(video(6, 1), key="buffer@left")
    assert graph.get_frames() is None
    graph.add_frames(video(6, 2), key="buffer@right")
    graph.flush()
    np.testing.assert_array_equal(array_of(graph.get_frames()), np.concatenate([pictures(6, 1), pictures(6, 2)], 2))


def test_one_video_in_two_sizes() -> None:
    graph = FilterGraph(
        f"{get_buffer_desc(video())},split [a] [b]; [a] buffersink@whole; [b] crop=8:6:0:0, buffersink@part"
    )
    graph.add_frames(video())
    np.testing.assert_array_equal(array_of(graph.get_frames(key="buffersink@part")), pictures()[:, :6, :8])
    np.testing.assert_array_equal(array_of(graph.get_frames(key="buffersink@whole")), pictures())


def test_two_sounds_are_mixed() -> None:
    inputs = [get_abuffer_desc(sound(), label=label) for label in ("a", "b")]
    graph = FilterGraph(f"{inputs[0]} [a]; {inputs[1]} [b]; [a] [b] amix=normalize=0, abuffersink")
    graph.add_frames(sound(), key="abuffer@a")
    graph.add_frames(sound(), key="abuffer@b")
    graph.flush()
    np.testing.assert_allclose(array_of(graph.get_frames()), 2 * samples(), rtol=1e-6)


def test_pictures_and_sound_in_one_graph() -> None:
    shown, heard = get_buffer_desc(video(), "v"), get_abuffer_desc(sound(), label="a")
    desc = f"{shown},vflip,buffersink@v;{heard},anull,abuffersink@a"
    graph = FilterGraph(desc)
    graph.add_frames(video(), key="buffer@v")
    graph.add_frames(sound(), key="abuffer@a")
    np.testing.assert_array_equal(array_of(graph.get_frames(key="buffersink@v")), pictures()[:, ::-1])
    np.testing.assert_array_equal(array_of(graph.get_frames(key="abuffersink@a")), samples())


def test_an_image_on_a_video() -> None:
    image = decode_packets(demux_image(make_jpeg(32, 24)))
    base, logo = get_buffer_desc(video(), "base"), get_buffer_desc(image, "logo")
    graph = FilterGraph(
        f"{base} [a]; {logo},crop=4:4:0:0 [b]; [a] [b] overlay=x=2:y=3:format=gbrp,format=rgb24,buffersink"
    )
    expected = pictures()
    expected[:, 3:7, 2:6] = array_of(image.clone())[:4, :4]
    graph.add_frames(image, key="buffer@logo")
    graph.add_frames(video(), key="buffer@base")
    graph.flush()
    frames = graph.get_frames()
    assert isinstance(frames, VideoFrames)
    np.testing.assert_array_equal(array_of(frames), expected)


@pytest.mark.parametrize("drawn", ["showwaves=size=32x24:rate=16", "showspectrum=size=32x24"])
def test_pictures_of_sound_come_out_as_video(drawn: str) -> None:
    if has_another_version() and drawn.startswith("showwaves"):
        pytest.skip("the ffmpeg command has another version of the filter")
    array = samples(4000)
    graph = FilterGraph(f"{get_abuffer_desc(sound())},{drawn},format=rgb24,buffersink")
    parts = []
    for start in range(0, 5000, 500):
        if start == 4000:
            graph.flush()
        elif start < 4000:
            part = np.ascontiguousarray(array[:, start : start + 500])
            graph.add_frames(create_reference_audio_frame(part, "fltp", 8000, start))
        frames = graph.get_frames()
        assert frames is None or isinstance(frames, VideoFrames)
        parts += [] if frames is None else [array_of(frames)]
    assert min(map(len, parts)) == 1  # A single picture is a video, too.
    options = ("-f", "f32le", "-ar", "8000", "-ac", "2", "-i", "-", "-lavfi", f"aformat=fltp,{drawn},format=rgb24")
    # Otherwise the command repeats pictures for a steady rate.
    expected = pipe_ffmpeg(array.T.tobytes(), *options, "-fps_mode", "passthrough", "-f", "rawvideo", "-")
    np.testing.assert_array_equal(np.concatenate(parts), np.frombuffer(expected, np.uint8).reshape(-1, 24, 32, 3))


def test_a_picture_of_a_graphs_own_source_is_a_video() -> None:
    graph = FilterGraph("color=red:size=32x24:rate=5:duration=1,format=rgb24,buffersink")
    parts = [array_of(frames) for frames in iter(graph.get_frames, None)]
    assert np.concatenate(parts).shape == (5, 24, 32, 3)


def test_a_graph_with_an_endless_source_gives_one_frame_at_a_time() -> None:
    graph = FilterGraph(f"color=size=32x24:rate=25 [a]; {get_buffer_desc(video())} [b]; [a] [b] overlay,buffersink")
    graph.add_frames(video())
    graph.flush()
    for _ in range(20):
        frames = graph.get_frames()
        assert frames is not None
        assert len(frames) == 1  # type: ignore[arg-type]


def test_filters_that_need_no_more_frames() -> None:
    graph = FilterGraph(f"{get_buffer_desc(video())},trim=end_frame=2,buffersink")
    graph.add_frames(video())
    np.testing.assert_array_equal(array_of(graph.get_frames()), pictures()[:2])
    graph.add_frames(video(pts=6))
    assert graph.get_frames() is None


def encoded() -> tuple[bytes, bytes]:
    """Return a video and a sound."""
    files = io.BytesIO(), io.BytesIO()
    muxer = Muxer(files[0], format="matroska")
    video_encoder = muxer.add_encode_stream(video_encode_config(height=24, width=32), encoder="ffv1")
    with muxer.open():
        packets = video_encoder.encode(video())
        assert packets is not None
        muxer.write(0, packets)
    muxer = Muxer(files[1], format="wav")
    audio_encoder = muxer.add_encode_stream(audio_encode_config(num_channels=2, sample_rate=8000))
    with muxer.open():
        sounds = audio_encoder.encode(sound())
        assert sounds is not None
        muxer.write(0, sounds)
    return files[0].getvalue(), files[1].getvalue()


def test_descriptions_of_codecs() -> None:
    moving, heard = encoded()
    codec = demux_video(moving).codec
    assert get_buffer_desc(codec) == "buffer=video_size=32x24:pix_fmt=bgr0:time_base=1/1000:pixel_aspect=0/1" or (
        "pix_fmt=gbrp" in get_buffer_desc(codec)
    )
    expected = "buffer@x=video_size=32x24:pix_fmt=rgb24:time_base=1/1000:pixel_aspect="
    assert get_buffer_desc(codec, "x", "rgb24").startswith(expected)
    audio = demux_audio(heard).codec
    assert get_abuffer_desc(audio) == "abuffer=time_base=1/8000:sample_rate=8000:sample_fmt=flt:channel_layout=stereo"
    expected = "abuffer@y=time_base=1/8000:sample_rate=8000:sample_fmt=fltp:channel_layout=stereo"
    assert get_abuffer_desc(audio, label="y", sample_fmt="fltp") == expected


def test_decoded_streams_fit_the_description_of_their_codec() -> None:
    moving, heard = encoded()
    packets = demux_video(moving)
    graph = FilterGraph(f"{get_buffer_desc(packets.codec, pix_fmt='rgb24')},null,buffersink")
    graph.add_frames(decode_packets(packets))
    np.testing.assert_array_equal(array_of(graph.get_frames()), pictures())
    sounds = demux_audio(heard)
    graph = FilterGraph(f"{get_abuffer_desc(sounds.codec, sample_fmt='fltp')},anull,abuffersink")
    graph.add_frames(decode_packets(sounds))
    np.testing.assert_array_equal(array_of(graph.get_frames()), samples())


@pytest.mark.parametrize(
    ("desc", "frames", "complaint"),
    [
        (get_buffer_desc(video()), sound, "takes pictures, but the frames are sound: describe.*get_abuffer_desc"),
        (get_abuffer_desc(sound()), video, "takes sound, but the frames are pictures: describe.*get_buffer_desc"),
    ],
)
def test_the_other_medium_is_refused(desc: str, frames: Any, complaint: str) -> None:
    sink = "abuffersink" if desc.startswith("a") else "buffersink"
    graph = FilterGraph(f"{desc},{'a' if sink[0] == 'a' else ''}null,{sink}")
    given = frames()
    with pytest.raises(RuntimeError, match=complaint):
        graph.add_frames(given)
    assert len(given) > 0  # They are not consumed.


def test_sound_of_another_form_is_refused() -> None:
    graph = FilterGraph(f"{get_abuffer_desc(sound())},anull,abuffersink")
    with pytest.raises(RuntimeError, match="takes 2 channels of fltp at 8000 Hz, but the frames are 1 channels"):
        graph.add_frames(sound(channels=1))


def test_open_ends_are_named() -> None:
    with pytest.raises(RuntimeError, match='put an "abuffersink" there'):
        FilterGraph(f"{get_abuffer_desc(sound())},anull")
    with pytest.raises(RuntimeError, match='put a "buffersink" there'):
        FilterGraph(f"{get_buffer_desc(video())},null")


def test_frames_are_consumed() -> None:
    graph = FilterGraph(f"{get_buffer_desc(video())},null,buffersink")
    frames = video()
    graph.add_frames(frames)
    with pytest.raises(TypeError, match="these VideoFrames were consumed"):
        graph.add_frames(frames)
    with pytest.raises(TypeError, match="`frames` must be frames"):
        graph.add_frames(pictures())  # type: ignore[arg-type]


def test_images_still_come_one_by_one() -> None:
    graph = FilterGraph(f"{get_buffer_desc(decode_packets(demux_image(make_jpeg(32, 24))))},null,buffersink")
    for _ in range(2):
        graph.add_frames(decode_packets(demux_image(make_jpeg(32, 24))))
    for _ in range(2):
        assert isinstance(graph.get_frames(), ImageFrames)
    assert graph.get_frames() is None
