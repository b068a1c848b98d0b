"""decode_config(backend=): the decoder can be chosen and asked for, and both give the same picture."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter
from tests.io.images import Array, encode, make_image, make_jpeg

from spdl.io import (
    convert_frames,
    decode_config,
    decode_packets,
    demux_image,
    encode_config,
    encode_image,
    get_video_filter_desc,
    load_image,
    load_image_batch,
    to_numpy,
)

TURBO, DEFLATE, FFMPEG = (decode_config(backend=name) for name in ("libjpeg-turbo", "libdeflate", "ffmpeg"))

# How far the two may be apart, in levels: on average, and for all but one in a thousand values. What they do otherwise:
# FFmpeg's inverse DCT is another, it takes chroma samples for those of 2x2 pixels, and scales before it converts.
MEAN_BOUND, MOST_BOUND = 2.5, 15.0


def photo(width: int = 640, height: int = 427, mode: str = "RGB", **options: Any) -> bytes:
    """Smooth and of few colours, as photos are, so that what is compared is not how noise is filtered."""
    image = make_image(width, height).filter(ImageFilter.GaussianBlur(2))
    muted = Image.blend(image.convert("L").convert("RGB"), image, 0.2).convert(mode)
    if options == {"subsampling": "4:4:0"}:  # Pillow does not write it.
        file = io.BytesIO()
        encode_image(file, np.asarray(muted), encode_config=encode_config(format="jpeg", quality=92, **options))
        return file.getvalue()
    return encode(muted, "JPEG", quality=92, **options)


def assert_close(ours: Array, theirs: Array) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    difference = np.abs(ours.astype(int) - theirs)
    assert difference.mean() <= MEAN_BOUND
    assert np.percentile(difference, 99.9) <= MOST_BOUND


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1"])
@pytest.mark.parametrize(
    "desc",
    [
        {"scale_width": 224, "scale_height": 224},
        {"scale_width": 224, "scale_height": 224, "scale_mode": None},
        {"scale_width": 224, "scale_height": 200, "scale_mode": "crop"},
        {"scale_width": 256, "scale_height": 256, "scale_mode": "crop", "crop_width": 224, "crop_height": 223},
        {"scale_width": 256, "scale_height": 250, "crop_width": 97, "crop_height": 191},
        {"scale_width": 300, "scale_mode": None, "scale_algo": "bilinear"},
        {"scale_height": 300, "scale_algo": "bilinear"},
        {"scale_width": 224, "scale_height": 224, "scale_algo": "area", "filter_desc": "hflip"},
        {"crop_width": 301, "crop_height": 201},
        {"crop_width": 300, "crop_height": 202, "filter_desc": "hflip"},
        {"pix_fmt": "bgr24"},
        {"pix_fmt": "gray"},
        {"scale_width": 224, "scale_height": 224, "pix_fmt": "bgr24", "scale_mode": "crop"},
    ],
    ids=str,
)
def test_both_give_the_same_picture(desc: dict[str, Any], subsampling: str) -> None:
    data = photo(subsampling=subsampling)
    filter_desc = get_video_filter_desc(**desc)
    ours = load_image(data, filter_desc=filter_desc)
    theirs = load_image(data, filter_desc=filter_desc, decode_config=FFMPEG)
    assert ours.backends == ("libjpeg-turbo",)
    assert theirs.backends == ("ffmpeg",)
    assert_close(to_numpy(ours), to_numpy(theirs))


@pytest.mark.parametrize("mode", ["pad", "stretch", "crop"])
@pytest.mark.parametrize("orientation", [1, 3, 5, 6, 8])
def test_both_give_the_same_batch(mode: Any, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    inputs = [photo(exif=exif), photo(501, 640, subsampling="4:4:4", exif=exif)]
    keywords: dict[str, Any] = {
        "width": 180,
        "height": 190,
        "mode": mode,
        "crop": [(11, 22, 411, 401), (0, 1, 501, 500)],
        "flip": [True, False],
    }
    ours = load_image_batch(inputs, **keywords)
    theirs = load_image_batch(inputs, decode_config=FFMPEG, **keywords)
    assert ours.backends == ("libjpeg-turbo",) * 2
    assert theirs.backends == ("ffmpeg",) * 2
    assert_close(to_numpy(ours), to_numpy(theirs))


@pytest.mark.parametrize("pix_fmt", ["rgb24", "bgr24", "gray"])
def test_both_give_the_same_channels(pix_fmt: str) -> None:
    keywords: dict[str, Any] = {"width": 200, "height": 150, "mode": "crop", "pix_fmt": pix_fmt}
    ours = to_numpy(load_image_batch([photo()], **keywords))
    assert_close(ours, to_numpy(load_image_batch([photo()], decode_config=FFMPEG, **keywords)))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
def test_ffmpeg_scales_the_colours_of_each_pixel_of_a_cut(interpolation: Any) -> None:
    """FFmpeg would average the colours of two pixels each of RGB, and read one beyond the last of an odd number."""
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (18, 25, 3), dtype=np.uint8))
    box = (0, 1, 25, 18)
    keywords: dict[str, Any] = {"width": 12, "height": 9, "mode": "stretch", "crop": [box]}
    batch = load_image_batch([encode(image, "PNG")], interpolation=interpolation, decode_config=FFMPEG, **keywords)
    wanted = image.crop(box).resize((12, 9), Image.Resampling[interpolation.upper()])
    assert np.abs(to_numpy(batch)[0].astype(int) - np.asarray(wanted)).mean() < 3


@pytest.mark.parametrize(
    "options", [{"mode": "L"}, {"mode": "CMYK"}, {"progressive": True}, {"restart_marker_rows": 1}], ids=str
)
def test_every_kind_of_jpeg(options: dict[str, Any]) -> None:
    data = photo(**options)
    keywords: dict[str, Any] = {"width": 200, "height": 150, "mode": "stretch"}
    ours = to_numpy(load_image_batch([data], **keywords))
    theirs = to_numpy(load_image_batch([data], decode_config=FFMPEG, **keywords))
    assert_close(ours, theirs)


def test_frames_say_it_too() -> None:
    for data, config, backend in (
        (make_jpeg(), None, "libjpeg-turbo"),
        (make_jpeg(), TURBO, "libjpeg-turbo"),
        (make_jpeg(), FFMPEG, "ffmpeg"),
        (make_jpeg(), decode_config("mjpeg"), "ffmpeg"),
        (encode(make_image(30, 20), "PNG"), None, "libdeflate"),
        (encode(make_image(30, 20), "PNG"), FFMPEG, "ffmpeg"),
        (encode(make_image(30, 20), "BMP"), None, "bmp"),
        (encode(make_image(30, 20), "BMP"), FFMPEG, "ffmpeg"),
        (encode(make_image(30, 20).quantize(8), "GIF"), None, "gif"),
        (encode(make_image(30, 20), "PPM"), None, "pnm"),
    ):
        frames = decode_packets(demux_image(data), decode_config=config)
        assert frames.backend == frames.clone().backend == backend
        assert convert_frames([frames]).backends == (backend,)


@pytest.mark.parametrize("file_format", ["PNG", "GIF", "BMP", "TIFF", "WEBP", "AVIF", "JPEG2000", "PPM", "QOI", "JPEG"])
def test_ffmpeg_decodes_nothing_unless_it_is_asked_for(file_format: str) -> None:
    data = encode(make_image(30, 20), file_format)
    for filters in ("format=pix_fmts=rgb24", "scale=8:8,format=pix_fmts=rgb24", "format=pix_fmts=rgba", None):
        if file_format != "JPEG" or filters == "format=pix_fmts=rgb24":  # Filters get a JPEG's planes.
            assert load_image(data, filter_desc=filters).backends != ("ffmpeg",)
    assert load_image_batch([data], width=8, height=8).backends != ("ffmpeg",)
    asked = load_image(data, decode_config=FFMPEG)
    assert asked.backends == ("ffmpeg",)


def test_a_batch_says_it_for_each_image() -> None:
    inputs = [make_jpeg(), encode(make_image(30, 20), "PNG"), make_jpeg()]
    batch = load_image_batch(inputs, width=8, height=8)
    assert batch.backends == ("libjpeg-turbo", "libdeflate", "libjpeg-turbo")


@pytest.mark.parametrize(
    ("data", "keywords"),
    [
        (encode(make_image(30, 20), "PNG"), {}),
        (make_jpeg(), {"filter_desc": "vflip"}),
        (make_jpeg(), {"filter_desc": None}),
        (make_jpeg(), {"decode_config": decode_config("mjpeg", backend="libjpeg-turbo")}),
    ],
)
def test_what_libjpeg_turbo_cannot_do_is_an_error_where_it_is_insisted_on(data: bytes, keywords: Any) -> None:
    message = "libjpeg-turbo decodes JPEG only, without FFmpeg's options and filters, but was asked for"
    arguments = {"decode_config": TURBO, **keywords}
    with pytest.raises(RuntimeError, match=message):
        load_image(data, **arguments)
    with pytest.raises(RuntimeError, match=message):
        load_image_batch([data], width=8, height=8, **arguments)


def test_libdeflate_decodes_no_other_formats() -> None:
    for data in (make_jpeg(), encode(make_image(8, 8), "BMP")):
        with pytest.raises(RuntimeError, match="libdeflate decodes PNG only, without FFmpeg's options, but"):
            load_image(data, decode_config=DEFLATE)


@pytest.mark.parametrize("name", ["gif", "bmp", "qoi", "pnm"])
def test_own_decoders_decode_their_format_alone(name: Any) -> None:
    with pytest.raises(RuntimeError, match=f"{name} decodes .* only, without FFmpeg's options"):
        load_image(make_jpeg(), decode_config=decode_config(backend=name))


def test_a_backend_of_another_name_is_an_error() -> None:
    names = "'libjpeg-turbo', 'libdeflate', .*'gif', .*'ffmpeg' or None"
    with pytest.raises(ValueError, match=rf"^`backend` must be {names}, got 'pillow' "):
        decode_config(backend="pillow")  # type: ignore[arg-type]


def test_a_cut_that_misses_the_picture_is_black() -> None:
    # One column in the middle of four is not where the middle is cut out.
    desc = get_video_filter_desc(scale_width=4, scale_height=40, crop_width=1, crop_height=20)
    for config in (None, FFMPEG):
        cut = to_numpy(load_image(make_jpeg(1, 40), filter_desc=desc, decode_config=config))
        assert cut.shape == (20, 1, 3)
        assert not cut.any()
    whole = get_video_filter_desc(scale_width=4, scale_height=40)
    assert to_numpy(load_image(make_jpeg(1, 40), filter_desc=whole)).any()


def test_a_crop_that_is_too_large_is_an_error_of_either() -> None:
    desc = get_video_filter_desc(crop_width=999, crop_height=10)
    for config in (None, FFMPEG):
        with pytest.raises(RuntimeError, match="crop"):
            load_image(make_jpeg(), filter_desc=desc, decode_config=config)
