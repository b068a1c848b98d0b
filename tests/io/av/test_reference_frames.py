"""Frames that show an array, and convert_array."""

import gc
import io
import wave
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.io.pairs import pairs

from spdl.io import (
    CPUBuffer,
    FilterGraph,
    Muxer,
    audio_encode_config,
    convert_array,
    convert_frames,
    cpu_storage,
    create_reference_audio_frame,
    create_reference_video_frame,
    get_abuffer_desc,
    get_buffer_desc,
    load_audio,
    to_numpy,
)

Array = np.ndarray[Any, Any]


def noise(shape: tuple[int, ...], dtype: Any = np.uint8) -> Array:
    generator = np.random.default_rng(0)
    if np.dtype(dtype).kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    native = np.dtype(dtype).newbyteorder("=")
    return generator.integers(limits.min, limits.max, shape, native, endpoint=True).astype(dtype)


@pytest.mark.parametrize(
    ("pix_fmt", "shape", "dtype", "converted"),
    [
        ("rgb24", (3, 5, 7, 3), np.uint8, (3, 5, 7, 3)),
        ("bgr24", (1, 5, 7, 3), np.uint8, (1, 5, 7, 3)),
        ("rgba", (2, 5, 7, 4), np.uint8, (2, 5, 7, 4)),
        ("gray", (3, 5, 7), np.uint8, (3, 5, 7, 1)),
        ("gray8", (3, 5, 7), np.uint8, (3, 5, 7, 1)),
        ("gray16", (3, 5, 7), np.uint16, (3, 5, 7, 1)),
        ("gray16le", (3, 5, 7), "<u2", (3, 5, 7, 1)),
        ("gray16be", (3, 5, 7), ">u2", (3, 5, 7, 1)),
        ("gray", (3, 5, 7, 1), np.uint8, (3, 5, 7, 1)),
        ("yuv444p", (2, 3, 5, 7), np.uint8, (2, 3, 5, 7)),
    ],
)
def test_pictures(pix_fmt: str, shape: tuple[int, ...], dtype: Any, converted: tuple[int, ...]) -> None:
    array = noise(shape, dtype)
    frames = create_reference_video_frame(array, pix_fmt, (30000, 1001), 7)
    assert (len(frames), frames.width, frames.height) == (shape[0], 7, 5)
    assert frames.time_base == (1001, 30000)
    assert frames.get_pts() == [7 + n for n in range(shape[0])]
    np.testing.assert_array_equal(to_numpy(convert_frames(frames)), array.reshape(converted))


DTYPES = {"u8": "u1", "s16": "i2", "s32": "i4", "s64": "i8", "flt": "f4", "dbl": "f8"}


@pytest.mark.parametrize(("sample_fmt", "channels", "planar"), pairs(DTYPES, [1, 2, 6, 11], [False, True]))
def test_sound(sample_fmt: str, planar: bool, channels: int) -> None:  # noqa: FBT001
    dtype = DTYPES[sample_fmt]
    array = noise((channels, 50) if planar else (50, channels), dtype)
    frames = create_reference_audio_frame(array, sample_fmt + "p" * planar, 8000, 400)
    assert (len(frames), frames.num_channels, frames.sample_rate) == (50, channels, 8000)
    assert frames.get_timestamps() == [0.05]
    np.testing.assert_array_equal(to_numpy(convert_frames(frames.clone())), array)
    np.testing.assert_array_equal(to_numpy(convert_frames(frames)), array)


def test_they_show_the_array_and_do_not_copy_it() -> None:
    pictures, sound = noise((2, 4, 4, 3)), noise((10, 2), np.int16)
    video = create_reference_video_frame(pictures, "rgb24", 25, 0)
    audio = create_reference_audio_frame(sound, "s16", 8000, 0)
    pictures[1, 2, 3] = 77
    sound[5] = -99
    np.testing.assert_array_equal(to_numpy(convert_frames(video)), pictures)
    np.testing.assert_array_equal(to_numpy(convert_frames(audio)), sound)


@pytest.mark.parametrize("pix_fmt", ["gray16", "gray16le", "gray16be"])
@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
def test_16_bits_are_taken_as_they_are(pix_fmt: str, dtype: Any) -> None:
    array = noise((2, 5, 7), dtype)
    shown = to_numpy(convert_frames(create_reference_video_frame(array, pix_fmt, 25, 0)))
    order = ">u2" if pix_fmt.endswith("be") else "<u2"  # Of the bits; arrays are in the machine's order.
    np.testing.assert_array_equal(shown[..., 0], array.view(order))


GAPS: dict[str, Callable[[Array], Array]] = {
    "every second": lambda array: np.repeat(array, 2, axis=0)[::2],
    "backwards": lambda array: array[::-1].copy()[::-1],
    "other order of axes": lambda array: array.copy(order="F"),
    "part of the last axis": lambda array: np.concatenate([array, array], axis=-1)[..., : array.shape[-1]],
    "repeated": lambda array: np.broadcast_to(array[:1], array.shape),
}


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize(
    ("shape", "pix_fmt", "dtype"),
    [((3, 5, 7, 3), "rgb24", "u1"), ((3, 5, 7), "gray16", "u2"), ((3, 3, 5, 7), "yuv444p", "u1")],
)
def test_pictures_with_gaps_are_copied(gap: str, shape: tuple[int, ...], pix_fmt: str, dtype: str) -> None:
    array = GAPS[gap](noise(shape, dtype))
    assert not array.flags.c_contiguous
    frames = create_reference_video_frame(array, pix_fmt, 25, 0)
    np.testing.assert_array_equal(to_numpy(convert_frames(frames)).reshape(shape), array)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize(("shape", "sample_fmt"), [((60, 2), "flt"), ((2, 60), "fltp")])
def test_sound_with_gaps_is_copied(gap: str, shape: tuple[int, ...], sample_fmt: str) -> None:
    array = GAPS[gap](noise(shape, np.float32))
    assert not array.flags.c_contiguous
    frames = create_reference_audio_frame(array, sample_fmt, 8000, 0)
    np.testing.assert_array_equal(to_numpy(convert_frames(frames)), array)


def test_a_copy_keeps_what_was_there() -> None:
    array = noise((2, 60), np.float32)
    expected = array.T.copy()
    frames = create_reference_audio_frame(array.T, "flt", 8000, 0)
    array[...] = 0
    np.testing.assert_array_equal(to_numpy(convert_frames(frames)), expected)


def test_a_transposed_signal_is_encoded() -> None:
    planar = noise((2, 4000), np.int16)
    file = io.BytesIO()
    muxer = Muxer(file, format="wav")
    encoder = muxer.add_encode_stream(audio_encode_config(num_channels=2, sample_rate=8000, sample_fmt="s16"))
    with muxer.open():
        packets = encoder.encode(create_reference_audio_frame(planar.T, "s16", 8000, 0))
        assert packets is not None
        muxer.write(0, packets)
    with wave.open(io.BytesIO(file.getvalue())) as written:
        found = np.frombuffer(written.readframes(4000), "<i2").reshape(-1, 2)
    np.testing.assert_array_equal(found, planar.T)


def test_nothing_writes_to_the_array() -> None:
    array = noise((1, 40, 40, 3))
    before = array.copy()
    frames = create_reference_video_frame(array, "rgb24", 25, 0)
    graph = FilterGraph(f"{get_buffer_desc(frames)},drawbox=x=5:y=5:w=9:h=9:color=red:t=fill,buffersink")
    graph.add_frames(frames)
    drawn = graph.get_frames()
    assert drawn is not None
    assert (to_numpy(convert_frames(drawn)) != before).any()
    np.testing.assert_array_equal(array, before)


class Kept(np.ndarray):
    """An array that can be watched."""


def test_the_array_lives_as_long_as_the_frames() -> None:
    array = Kept((4, 30, 30, 3), np.uint8)
    array[...] = noise(array.shape)
    expected = np.asarray(array).copy()
    watched = weakref.ref(array)
    frames = create_reference_video_frame(array, "rgb24", 25, 0)
    part = frames[1:3]
    del array, frames
    gc.collect()
    assert watched() is not None
    np.testing.assert_array_equal(to_numpy(convert_frames(part)), expected[1:3])
    del part
    gc.collect()
    assert watched() is None


def test_an_array_that_an_encoder_drops_without_the_gil() -> None:
    muxer = Muxer(io.BytesIO(), format="wav")
    encoder = muxer.add_encode_stream(audio_encode_config(num_channels=2, sample_rate=8000, sample_fmt="s16"))
    with muxer.open():
        for start in range(0, 8000, 100):
            array = noise((100, 2), np.int16)
            packets = encoder.encode(create_reference_audio_frame(array, "s16", 8000, start))
            assert packets is not None
            muxer.write(0, packets)


def test_sound_through_filters() -> None:
    array = noise((1, 4001), np.float32)  # No multiple of what filters take at once.
    frames = create_reference_audio_frame(array, "fltp", 8000, 0)
    graph = FilterGraph(f"{get_abuffer_desc(frames)},volume=0.5,abuffersink")
    graph.add_frames(frames)
    graph.flush()
    found = graph.get_frames()
    assert found is not None
    np.testing.assert_allclose(to_numpy(convert_frames(found)), array / 2, rtol=1e-6)


def test_other_arrays_than_numpys() -> None:
    buffer = convert_frames(create_reference_video_frame(noise((2, 5, 7, 3)), "rgb24", 25, 0))
    assert isinstance(buffer, CPUBuffer)
    frames = create_reference_video_frame(buffer, "rgb24", 25, 0)
    np.testing.assert_array_equal(to_numpy(convert_frames(frames)), noise((2, 5, 7, 3)))


@pytest.mark.parametrize(
    ("array", "pix_fmt", "error", "complaint"),
    [
        (noise((2, 5, 7, 3)), "bogus", ValueError, "`pix_fmt` must be one of rgb24"),
        (noise((2, 5, 7, 3)), 3, TypeError, "`pix_fmt` must be a str"),
        (noise((5, 7, 3)), "rgb24", ValueError, r"`array` must be of shape \(N, H, W, 3\)"),
        (noise((2, 5, 7, 4)), "rgb24", ValueError, r"\(N, H, W, 3\).*got \(2, 5, 7, 4\)"),
        (noise((0, 5, 7, 3)), "rgb24", ValueError, "got"),
        (noise((2, 0, 7, 3)), "rgb24", ValueError, "got"),
        (noise((2, 5, 7, 3)), "yuv444p", ValueError, r"\(N, 3, H, W\)"),
        (noise((2, 5, 7, 3), np.int16), "rgb24", ValueError, "of dtype uint8 for the pixel format 'rgb24'"),
        (noise((2, 5, 7), np.uint8), "gray16", ValueError, "of dtype uint16"),
        (noise((2, 5, 7), np.float16), "gray16", ValueError, "of dtype uint16 or int16"),
        (noise((2, 5, 7), ">u2"), "gray16", ValueError, "pass 'gray16be'"),
        (noise((2, 5, 7)), "rgb24", ValueError, "got"),
        (noise((2, 5, 7, 3)), "gray", ValueError, r"\(N, H, W\) or \(N, H, W, 1\)"),
        ([[1]], "rgb24", TypeError, "`array` must be an array"),
    ],
)
def test_wrong_pictures(array: Any, pix_fmt: Any, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        create_reference_video_frame(array, pix_fmt, 25, 0)


@pytest.mark.parametrize(
    ("array", "sample_fmt", "error", "complaint"),
    [
        (noise((5, 2), np.int16), "bogus", ValueError, "`sample_fmt` must be one of u8"),
        (noise((5, 2), np.int16), "flt", ValueError, "of dtype float32 for 'flt'"),
        (noise((5,), np.int16), "s16", ValueError, r"\(samples, channels\)"),
        (noise((5, 65), np.int16), "s16", ValueError, "1 to 64 channels"),
        (noise((65, 5), np.int16), "s16p", ValueError, r"\(channels, samples\)"),
        (noise((0, 2), np.int16), "s16", ValueError, "got"),
        (noise((5, 2), np.uint16), "s16", ValueError, "of dtype int16"),
    ],
)
def test_wrong_sound(array: Any, sample_fmt: Any, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        create_reference_audio_frame(array, sample_fmt, 8000, 0)


def test_wrong_rates_and_times() -> None:
    with pytest.raises(ValueError, match="`frame_rate"):
        create_reference_video_frame(noise((2, 5, 7, 3)), "rgb24", (0, 1), 0)
    with pytest.raises(TypeError, match="`pts"):
        create_reference_video_frame(noise((2, 5, 7, 3)), "rgb24", 25, 0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`sample_rate"):
        create_reference_audio_frame(noise((5, 2), np.int16), "s16", 0, 0)


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 4],
        np.arange(6).reshape(2, 3),
        np.arange(6, dtype=np.int32)[::-2],
        np.arange(6, dtype=np.uint8),
        np.array([2**63 - 1], np.uint64),
        np.array([-1, 2], ">i8"),
        [],
        7,
    ],
)
def test_integers(values: Any) -> None:
    buffer = convert_array(values)
    assert buffer.dtype == "int64"
    np.testing.assert_array_equal(to_numpy(buffer), np.asarray(values).astype(np.int64))


def test_integers_in_a_storage() -> None:
    storage = cpu_storage(64, pin_memory=False)
    np.testing.assert_array_equal(to_numpy(convert_array([5, 6], storage)), [5, 6])
    with pytest.raises(RuntimeError, match=r"convert_array: .*storage"):
        convert_array(list(range(9)), storage)


@pytest.mark.parametrize(
    ("values", "error"),
    [([1.5], TypeError), (["a"], TypeError), ([2**64], ValueError), ([[1], [2, 3]], TypeError), ([True], TypeError)],
)
def test_what_is_no_integer(values: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`vals` must be integers"):
        convert_array(values)


def test_gain_of_encoded_sound_is_one() -> None:
    file = io.BytesIO()
    muxer = Muxer(file, format="wav")
    encoder = muxer.add_encode_stream(audio_encode_config(num_channels=2, sample_rate=8000))
    array = noise((2, 100), np.float32)
    with muxer.open():
        packets = encoder.encode(create_reference_audio_frame(array, "fltp", 8000, 0))
        assert packets is not None
        muxer.write(0, packets)
    np.testing.assert_array_equal(to_numpy(load_audio(file.getvalue())), array)
