"""The FFmpeg in use, and the errors where it lacks a part."""

import ctypes
import re
from pathlib import Path

import pytest
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import decode_config, demux_config, load_image
from spdl.io.utils import get_ffmpeg_filters, get_ffmpeg_license, get_ffmpeg_versions

REMEDY = (
    "To run on an FFmpeg that has it, build spdl-turbo on that one: pip install --force-reinstall --no-deps "
    "--no-binary spdl-turbo spdl-turbo, or in a checkout pip install --force-reinstall --no-deps ."
)


def load_library(name: str) -> ctypes.CDLL:
    """Open one of the libraries that the native part has brought into this process."""
    get_ffmpeg_versions()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    found = set(re.findall(rf"(/\S*/{name}[-.]\S+)$", maps, re.MULTILINE))
    # Another package may have brought its own.
    (path,) = {path for path in found if "/spdl_turbo.libs/" in path} or found
    return ctypes.CDLL(path)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("libavcodec", "avcodec_version"),
        ("libavfilter", "avfilter_version"),
        ("libavformat", "avformat_version"),
        ("libavutil", "avutil_version"),
        ("libswresample", "swresample_version"),
        ("libswscale", "swscale_version"),
    ],
)
def test_the_versions_are_those_of_the_loaded_libraries(name: str, function: str) -> None:
    version = getattr(load_library(name), function)()
    assert get_ffmpeg_versions()[name] == (version >> 16, version >> 8 & 255, version & 255)


def test_every_library_that_is_called_has_a_version() -> None:
    libraries = ["libavcodec", "libavfilter", "libavformat", "libavutil", "libswresample", "libswscale"]
    assert sorted(get_ffmpeg_versions()) == libraries


def test_the_licence_is_that_of_the_loaded_libraries() -> None:
    library = load_library("libavcodec")
    library.avcodec_license.restype = ctypes.c_char_p
    assert get_ffmpeg_license() == library.avcodec_license().decode()


def test_the_filters_are_those_that_the_loaded_library_finds() -> None:
    library = load_library("libavfilter")
    library.avfilter_get_by_name.restype = ctypes.c_void_p
    filters = get_ffmpeg_filters()
    assert filters == sorted(filters)
    assert {"scale", "format", "hflip", "transpose"} <= set(filters)
    assert all(library.avfilter_get_by_name(name.encode()) for name in filters)
    asked = ["eq", "boxblur", "histeq", "perspective", "scale", "drawtext", "no_such"]
    assert [name in filters for name in asked] == [bool(library.avfilter_get_by_name(name.encode())) for name in asked]


@pytest.mark.parametrize(
    "description",
    [
        "no_such",
        "hflip,no_such=1",
        " [in] hflip [a]; [a]no_such=2:1[out]",
        "sws_flags=bilinear;scale=w=8:h=8,no_such=x=1",
        r"drawbox=color='red,no_filter',drawbox=color=red\,no_filter,no_such@name=1",
    ],
)
def test_a_missing_filter_is_named_with_the_remedy(description: str) -> None:
    with pytest.raises(RuntimeError, match=rf"filter 'no_such'.*FFmpeg [5-9]\.\d.*{re.escape(REMEDY)}$"):
        load_image(make_jpeg(), filter_desc=description)


def test_a_filter_with_a_wrong_option_is_not_called_missing() -> None:
    with pytest.raises(RuntimeError, match=r"cannot apply") as raised:
        load_image(make_jpeg(), filter_desc="hflip,crop=no_such=1")
    assert REMEDY not in str(raised.value)


def test_a_missing_decoder_is_named_with_the_remedy() -> None:
    with pytest.raises(RuntimeError, match=rf'"no_such".*{re.escape(REMEDY)}$'):
        load_image(make_jpeg(), decode_config=decode_config("no_such"))


def test_an_error_may_repeat_bytes_that_are_no_text() -> None:
    data = encode(make_image(45, 31).convert("1"), "XBM").replace(b",0x", b",0x\xff", 1)
    with pytest.raises(RuntimeError) as raised:
        load_image(data, demux_config=demux_config("xbm_pipe"), decode_config=decode_config(backend="ffmpeg"))
    if "FFmpeg has no decoder" in str(raised.value):
        pytest.skip("not every FFmpeg has a decoder of it")
    assert re.search(r"cannot decode the image as xbm: .*Unexpected data at \?", str(raised.value))


def test_a_missing_demuxer_is_named_with_the_remedy() -> None:
    with pytest.raises(RuntimeError, match=rf'"no_such".*{re.escape(REMEDY)}$'):
        load_image(make_jpeg(), demux_config=demux_config("no_such"))
