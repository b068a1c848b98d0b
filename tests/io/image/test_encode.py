"""encode_image: arrays to images, and the checks of its arguments."""

import ctypes
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.io.encoding import AnyArray, encode, noise, open_with_pillow
from tests.io.image.test_ffmpeg import REMEDY, load_library
from tests.io.images import make_image
from tests.io.pairs import pairs

from spdl.io import encode_config, encode_image, load_image, save_image, to_numpy

# Formats that Pillow reads without a loss, and the encoders, which FFmpeg may lack.
LOSSLESS = {"png": "png", "bmp": "bmp", "tiff": "tiff", "ppm": "ppm", "qoi": "qoi"}
CHANNELS = {"rgb24": 3, "bgr24": 3, "rgba": 4, "bgra": 4, "gray": 1, "ya8": 2}


def in_this_build(encoder: str) -> bool:
    library = load_library("libavcodec")
    library.avcodec_find_encoder_by_name.restype = ctypes.c_void_p
    return library.avcodec_find_encoder_by_name(encoder.encode()) is not None


def in_rgb(array: AnyArray, pix_fmt: str) -> AnyArray:
    """Put blue last, where Pillow has it."""
    return array[..., [2, 1, 0, 3][: array.shape[-1]]] if pix_fmt.startswith("bgr") else array


@pytest.mark.parametrize(("suffix", "pix_fmt", "size"), pairs(LOSSLESS, CHANNELS, [(1, 1), (33, 20), (64, 48)]))
def test_lossless_formats_give_back_what_was_written(
    suffix: str, pix_fmt: str, size: tuple[int, int], tmp_path: Path
) -> None:
    path = tmp_path / f"image.{suffix}"
    channels = CHANNELS[pix_fmt]
    array = noise(*size[::-1], channels)
    if not in_this_build(LOSSLESS[suffix]):
        with pytest.raises(RuntimeError, match=f'has no encoder "{LOSSLESS[suffix]}"'):
            save_image(path, array, pix_fmt)
        return
    if suffix == "ppm" and channels in (2, 4):
        with pytest.raises(
            ValueError, match=rf"that ppm, written by FFmpeg's ppm, can hold \(rgb24, .*\), got '{pix_fmt}' "
        ):
            save_image(path, array, pix_fmt)
        return
    save_image(path, array, pix_fmt)
    image = open_with_pillow(path)
    assert image.size == size
    expected = in_rgb(array, pix_fmt)
    if suffix == "bmp" and channels in (2, 4):
        expected = expected[..., :-1]  # Pillow leaves out what some writers do not fill.
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[expected.shape[-1]]
    np.testing.assert_array_equal(np.asarray(image.convert(mode)), expected.squeeze(-1) if mode == "L" else expected)


@pytest.mark.parametrize("order", ["", "le", "be"])
@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_16_bits_are_written_in_either_byte_order(suffix: str, order: str) -> None:
    values = noise(20, 31, dtype="uint16")
    stored = values.astype({"": "=u2", "le": "<u2", "be": ">u2"}[order])
    image = open_with_pillow(encode(stored, f"gray16{order}", format=suffix))
    assert image.mode == "I;16"
    np.testing.assert_array_equal(np.asarray(image), values)


def test_bytes_are_taken_in_the_order_that_the_pixel_format_says() -> None:
    # As the reference takes an array of the machine's own dtype.
    values = noise(20, 31, dtype="uint16")
    image = open_with_pillow(encode(values, "gray16be", format="png"))
    np.testing.assert_array_equal(np.asarray(image), values.byteswap())
    signed = open_with_pillow(encode(values.view(np.int16), "gray16", format="png"))
    np.testing.assert_array_equal(np.asarray(signed), values)


@pytest.mark.parametrize(
    ("pix_fmt", "channels"), [("rgb48", 3), ("bgr48", 3), ("rgba64", 4), ("bgra64", 4), ("ya16", 2)]
)
@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_deep_colours_come_back(suffix: str, pix_fmt: str, channels: int) -> None:
    values = noise(20, 31, channels, dtype="uint16")
    back = to_numpy(load_image(encode(values, pix_fmt, format=suffix), filter_desc=None))
    # Pillow has no such mode, and shows the high bytes.
    np.testing.assert_array_equal(back, in_rgb(values, pix_fmt))
    if suffix == "png" and channels > 2:
        image = np.asarray(open_with_pillow(encode(values, pix_fmt, format=suffix)))
        np.testing.assert_array_equal(image, in_rgb(values, pix_fmt) >> 8)


@settings(deadline=None, max_examples=60)
@given(
    size=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    quality=st.integers(1, 100),
    subsampling=st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]),
    seed=st.integers(0, 5),
)
def test_a_jpeg_is_pillows(size: tuple[int, int], quality: int, subsampling: Any, seed: int) -> None:
    image = make_image(*size, seed)
    expected = io.BytesIO()
    image.save(expected, "JPEG", quality=quality, subsampling=subsampling)
    ours = encode(np.asarray(image), format="jpeg", quality=quality, subsampling=subsampling)
    # Its pixels to the last bit; the bytes, too, where the two libraries put the same headers in.
    np.testing.assert_array_equal(np.asarray(open_with_pillow(ours)), np.asarray(open_with_pillow(expected.getvalue())))
    assert abs(len(ours) - len(expected.getvalue())) < 32


def test_a_jpegs_defaults_are_pillows() -> None:
    image = make_image(60, 40)
    expected = io.BytesIO()
    image.save(expected, "JPEG")
    ours = open_with_pillow(encode(np.asarray(image), format="jpeg"))
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(open_with_pillow(expected.getvalue())))


@pytest.mark.parametrize(
    ("subsampling", "factors"),
    [("4:4:4", (1, 1)), ("4:2:2", (2, 1)), ("4:2:0", (2, 2)), ("4:4:0", (1, 2)), ("4:1:1", (4, 1))],
)
def test_a_jpegs_subsampling_is_what_was_asked_for(subsampling: Any, factors: tuple[int, int]) -> None:
    data = encode(np.asarray(make_image(64, 64)), format="jpeg", subsampling=subsampling)
    layers = open_with_pillow(data).layer  # type: ignore[attr-defined]
    assert layers[0][1:3] == factors
    assert layers[1][1:3] == layers[2][1:3] == (1, 1)


def test_the_channels_of_a_jpeg() -> None:
    image = np.asarray(make_image(60, 40))
    rgb = np.asarray(open_with_pillow(encode(image, format="jpeg")))
    np.testing.assert_array_equal(open_with_pillow(encode(image[..., ::-1], "bgr24", format="jpeg")), rgb)
    gray = io.BytesIO()
    Image.fromarray(image[..., 1]).save(gray, "JPEG")
    for array in (image[..., 1], image[..., 1:2]):
        ours = open_with_pillow(encode(array, "gray", format="jpeg"))
        assert ours.mode == "L"
        np.testing.assert_array_equal(ours, open_with_pillow(gray.getvalue()))


def test_jpegs_own_pixels_are_not_converted() -> None:
    planes = np.asarray(make_image(48, 32).convert("YCbCr")).transpose(2, 0, 1)
    data = encode(planes, "yuv444p", format="jpeg", quality=100, subsampling="4:4:4")
    back = to_numpy(load_image(data, filter_desc=None))
    assert back.shape == planes.shape
    assert np.abs(back.astype(int) - planes).max() <= 2  # Each of the two transforms rounds.


@pytest.mark.skipif(not in_this_build("libwebp"), reason="this FFmpeg has no encoder of WebP")
@pytest.mark.parametrize("pix_fmt", ["rgb24", "bgr24", "rgba", "bgra", "gray"])
def test_webp(pix_fmt: str) -> None:
    array = noise(24, 40, CHANNELS[pix_fmt])
    array[..., 3:] |= 1  # WebP keeps no colour of pixels that cannot be seen.
    image = open_with_pillow(encode(array, pix_fmt, format="webp", encoder_options={"lossless": "1"}))
    mode = "RGBA" if CHANNELS[pix_fmt] == 4 else "RGB"
    expected = in_rgb(array, pix_fmt)
    np.testing.assert_array_equal(np.asarray(image.convert(mode)), np.broadcast_to(expected, (24, 40, len(mode))))


@pytest.mark.skipif(not in_this_build("libwebp"), reason="this FFmpeg has no encoder of WebP")
def test_a_webps_quality_is_libwebps() -> None:
    image = make_image(80, 60)
    sizes = [len(encode(np.asarray(image), format="webp", quality=quality)) for quality in (10, 75, 95)]
    assert sizes[0] < sizes[1] < sizes[2]
    expected = io.BytesIO()
    image.save(expected, "WEBP", quality=75)
    ours = open_with_pillow(encode(np.asarray(image), format="webp", quality=75))
    assert np.abs(np.asarray(ours.convert("RGB")).astype(int) - open_with_pillow(expected.getvalue())).mean() < 2


def test_a_gif_of_gray_levels() -> None:
    array = noise(24, 40)
    data = encode(array, "gray", format="gif")
    np.testing.assert_array_equal(np.asarray(open_with_pillow(data).convert("L")), array)
    with pytest.raises(
        ValueError, match=r"^`pix_fmt` must be one that gif, written by FFmpeg's gif, can hold \(gray\), got"
    ):
        encode(noise(24, 40, 3), format="gif")


def test_inputs_of_every_kind() -> None:
    torch = pytest.importorskip("torch")
    array = noise(20, 30, 3)
    expected = encode(array, format="png")
    buffer = load_image(expected)
    assert encode(buffer, format="png") == expected
    assert encode(torch.from_numpy(array), format="png") == expected
    assert encode(array.data, format="png") == expected
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, ::2] = array
    for view in (
        wide[:, ::2],
        array[::-1][::-1],
        np.asfortranarray(array),
        torch.from_numpy(array.transpose(2, 0, 1).copy()).permute(1, 2, 0),
    ):
        assert encode(view, format="png") == expected
    array.setflags(write=False)
    assert encode(array, format="png") == expected


class OnAGpu:
    __cuda_array_interface__ = None


@pytest.mark.parametrize(
    ("data", "pix_fmt", "error", "message"),
    [
        (noise(4, 5), "rgb24", ValueError, r"^`data` must be of shape \(H, W, 3\), .* for .*'rgb24', got \(4, 5\) "),
        (noise(4, 5, 4), "rgb24", ValueError, r"got \(4, 5, 4\) "),
        (noise(2, 4, 5, 3), "rgb24", ValueError, r"got \(2, 4, 5, 3\) "),
        (noise(0, 5, 3), "rgb24", ValueError, r"sides from 1 to 65535, .* got \(0, 5, 3\) "),
        (noise(4, 5, 3), "gray", ValueError, r"\(H, W\) or \(H, W, 1\).*got \(4, 5, 3\) "),
        (noise(4, 5, 3), "yuv444p", ValueError, r"\(3, H, W\).*got \(4, 5, 3\) "),
        (noise(1, 65536), "gray", ValueError, r"sides from 1 to 65535, .* got \(1, 65536\) "),
        (
            np.zeros((4, 5, 3)),
            "rgb24",
            ValueError,
            r"^`data` must be of dtype uint8 .*'rgb24', got dtype\('float64'\) ",
        ),
        (
            noise(4, 5),
            "gray16",
            ValueError,
            r"^`data` must be of dtype uint16 or int16 .*, got dtype\('uint8'\) ",
        ),
        (
            noise(4, 5).astype(">u2"),
            "gray16le",
            ValueError,
            r"got '>u2' .*the other one: pass 'gray16be'",
        ),
        (noise(4, 5).astype(">u2"), "gray16", ValueError, r"pass 'gray16be'"),
        (noise(4, 5, 3), "rgb25", ValueError, r"^`pix_fmt` must be one of rgb24, .*, got 'rgb25' "),
        (noise(4, 5, 3), None, TypeError, r"^`pix_fmt` must be a str, got None "),
        ([[1, 2], [3, 4]], "gray", TypeError, r"^`data` must be an array .* got \[\[1, 2\], \[3, 4\]\] "),
        ("image.png", "rgb24", TypeError, r"^`data` must be an array .* got 'image.png' "),
        (
            OnAGpu(),
            "rgb24",
            TypeError,
            r"^`data` must be in main memory, got .*OnAGpu .*It is on a GPU: copy it",
        ),
    ],
)
def test_an_array_that_is_no_such_image_is_an_error(
    data: Any, pix_fmt: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        save_image(tmp_path / "image.png", data, pix_fmt)
    assert list(tmp_path.iterdir()) == []


def test_what_a_format_cannot_hold_is_an_error_that_says_what_it_can() -> None:
    with pytest.raises(
        ValueError,
        match=r"by libjpeg-turbo, can hold \(rgb24, bgr24, gray, yuv444p\), got 'rgba' .*\. A JPEG has no alpha",
    ):
        encode(noise(4, 4, 4), "rgba", format="jpeg")
    with pytest.raises(ValueError, match=r"can hold \(rgb24, bgr24, gray, yuv444p\), got 'gray16' "):
        encode(noise(4, 4, dtype="uint16"), "gray16", format="jpeg")
    with pytest.raises(
        ValueError, match=r"that png, written by FFmpeg's png, can hold \(rgb24, .*gray16, .*\), got 'yuv444p' "
    ):
        encode(noise(3, 4, 4), "yuv444p", format="png")


def test_an_encoder_that_is_missing_is_named_with_the_remedy() -> None:
    with pytest.raises(RuntimeError, match=rf'^image: FFmpeg has no encoder "no_such".*{REMEDY}$'):
        encode(noise(4, 4, 3), format="png", encoder="no_such")
    with pytest.raises(RuntimeError, match=r'the encoder "pcm_s16le" does not encode pictures'):
        encode(noise(4, 4, 3), format="png", encoder="pcm_s16le")


def test_ffmpegs_encoder_of_jpegs_can_be_asked_for(tmp_path: Path) -> None:
    planes = np.asarray(make_image(48, 32).convert("YCbCr")).transpose(2, 0, 1)
    data = encode(planes, "yuv444p", format="jpeg", encoder="mjpeg")
    assert b"Lavc" in data
    assert open_with_pillow(data).size == (48, 32)
    sizes = []
    for qscale in (2, 31):
        save_image(tmp_path / "image.jpg", planes, "yuv444p", qscale=qscale)
        sizes.append((tmp_path / "image.jpg").stat().st_size)
    assert sizes[0] > 2 * sizes[1]
    with pytest.raises(ValueError, match=r"that jpeg, written by FFmpeg's mjpeg, can hold \(yuv444p\), got 'rgb24' "):
        save_image(tmp_path / "image.jpg", noise(8, 8, 3), qscale=2)


def test_the_options_of_the_reference(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    image = np.asarray(make_image(100, 80))
    sizes = []
    for level in (0, 9):
        save_image(path, image, compression_level=level)
        sizes.append(path.stat().st_size)
        np.testing.assert_array_equal(open_with_pillow(path), image)
    assert sizes[0] > image.nbytes > sizes[1]
    save_image(path, image, bit_rate=1000, gop_size=1, max_b_frames=0, color_primaries="bt709", color_trc="bt709")
    np.testing.assert_array_equal(open_with_pillow(path), image)
    with pytest.raises(RuntimeError, match="nonsense"):
        save_image(path, image, color_trc="nonsense")


def test_options_that_an_encoder_does_not_know_are_errors() -> None:
    with pytest.raises(RuntimeError, match=r'^image: the encoder "png" has no option "nonsense" \(set to "1"\)$'):
        encode(noise(4, 4, 3), format="png", encoder_options={"nonsense": "1"})
    with pytest.raises(ValueError, match=r"^`quality` must be None for png: .* and for WebP, got 80 "):
        encode(noise(4, 4, 3), format="png", quality=80)
    with pytest.raises(ValueError, match=r"^`subsampling` must be None for png: .* for JPEG .*, got '4:4:4' "):
        encode(noise(4, 4, 3), format="png", subsampling="4:4:4")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"format": "jpg"}, ValueError, "^`format` must be 'jpeg', 'png', .* or None, got 'jpg' "),
        ({"width": 0}, ValueError, "^`width` must be an int from 1 to 65535, got 0 "),
        ({"height": 1.5}, TypeError, "^`height` must be an int from 1 to 65535, got 1.5 "),
        ({"quality": 101}, ValueError, "^`quality` must be an int from 1 to 100, got 101 "),
        ({"subsampling": "4:2:1"}, ValueError, "^`subsampling` must be '4:4:4', .* or None, got '4:2:1' "),
        ({"encoder": 3}, TypeError, "^`encoder` must be a str, got 3 "),
        ({"encoder_options": [1]}, TypeError, "^`encoder_options` must be a mapping of options' names to their values"),
        ({"encoder_options": {"a": 1}}, TypeError, r"^`encoder_options\['a'\]` must be a str, got 1 "),
        ({"scale_algo": "a\0b"}, ValueError, "^`scale_algo` must be a str without null characters"),
    ],
    ids=str,
)
def test_a_config_is_checked_where_it_is_made(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        encode_config(**arguments)


@pytest.mark.parametrize("algo", ["neighbor", "bilinear", "bicubic", "lanczos", "area"])
@pytest.mark.parametrize("pix_fmt", ["rgb24", "bgr24", "gray"])
def test_it_scales_as_pillow_does(pix_fmt: str, algo: str) -> None:
    image = make_image(90, 70)
    array = np.asarray(image)[..., 1] if pix_fmt == "gray" else in_rgb(np.asarray(image), pix_fmt)
    resampling = {"neighbor": 0, "bilinear": 2, "bicubic": 3, "lanczos": 1, "area": 4}[algo]
    expected = np.asarray(Image.fromarray(np.ascontiguousarray(array)).resize((40, 35), Image.Resampling(resampling)))
    back = open_with_pillow(encode(array, pix_fmt, format="png", width=40, height=35, scale_algo=algo))
    np.testing.assert_array_equal(np.asarray(back), in_rgb(expected, pix_fmt) if pix_fmt != "gray" else expected)


@pytest.mark.parametrize("pix_fmt", ["rgba", "gray16", "gray16be", "rgb48"])
def test_ffmpeg_scales_what_we_do_not(pix_fmt: str) -> None:
    channels = {"rgba": 4, "rgb48": 3}.get(pix_fmt, 1)
    smooth = np.linspace(0, 1, 80)[None, :, None] * np.linspace(0, 1, 60)[:, None, None] * np.ones(channels)
    array = (
        (smooth * 255).astype("uint8")
        if pix_fmt == "rgba"
        else (smooth * 65535).astype(">u2" if "be" in pix_fmt else "u2")
    )
    data = encode(array, pix_fmt, format="png", width=40, scale_algo="area")
    back = to_numpy(load_image(data, filter_desc=None))
    assert back.shape == (60, 40, channels)
    scale = np.iinfo(back.dtype).max
    halved = (array.astype(float)[:, ::2] + array[:, 1::2]) / 2
    assert np.abs(back / scale - halved / scale).max() < 0.02


def test_an_unknown_interpolation_is_an_error_with_ffmpegs_words() -> None:
    with pytest.raises(RuntimeError, match="scale=w=2:h=4:flags=wrong"):
        encode(noise(4, 4, 4), "rgba", format="png", width=2, scale_algo="wrong")


def test_what_is_no_config_is_an_error() -> None:
    with pytest.raises(
        TypeError, match=r"^`encode_config` must be an EncodeConfig, as `encode_config` returns, or None, got"
    ):
        encode_image("image.png", noise(4, 4, 3), encode_config={"format": "png"})  # type: ignore[arg-type]


def test_threads_encode_what_one_alone_does() -> None:
    arrays = [noise(30 + 7 * seed, 50, 3, seed=seed) for seed in range(6)]
    jobs = [(array, name) for array in arrays for name in ("jpeg", "png", "tiff")] * 6
    expected = [encode(array, format=name) for array, name in jobs]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda job: encode(job[0], format=job[1]), jobs)) == expected


def test_memory_does_not_grow_with_repetition() -> None:
    array = noise(200, 300, 3)
    process = psutil.Process()

    def work() -> None:
        for _ in range(15):
            for name in ("jpeg", "png", "bmp", "gif"):
                encode(array[..., 0], "gray", format=name)
            encode(array, format="tiff", width=100)
            encode(noise(20, 30, dtype="uint16"), "gray16", format="png", height=7)
            with pytest.raises(RuntimeError):
                encode(array, format="png", encoder_options={"nonsense": "1"})
            with pytest.raises(RuntimeError):
                encode(noise(1, 65501), "gray", format="jpeg")

    work()
    work()
    before = process.memory_info().rss
    for _ in range(4):
        work()
    # 60 rounds: a leak of one frame of 180 kB a round would be 11 MB.
    assert process.memory_info().rss - before < 6e6
