"""A file of raw pictures has the pixels that were put in, or is refused before it is written."""

from __future__ import annotations

import io

import numpy as np
import pytest

from spdl.io import (
    Muxer,
    convert_frames,
    create_reference_video_frame,
    decode_packets,
    demux_video,
    to_numpy,
    video_encode_config,
)

_FORMATS: dict[str, tuple[tuple[int, ...], type[np.uint8 | np.uint16]]] = {
    "rgb24": ((48, 63, 3), np.uint8),
    "bgr24": ((48, 63, 3), np.uint8),
    "rgba": ((48, 63, 4), np.uint8),
    "bgra": ((48, 63, 4), np.uint8),
    "gray": ((48, 63), np.uint8),
    "gray16le": ((48, 63), np.uint16),
    "yuv444p": ((3, 48, 63), np.uint8),
}


def _written(muxer_format: str, pix_fmt: str) -> tuple[bytes, np.ndarray]:
    shape, dtype = _FORMATS[pix_fmt]
    pictures = np.random.default_rng(5).integers(0, np.iinfo(dtype).max, (3, *shape), dtype, endpoint=True)
    file = io.BytesIO()
    muxer = Muxer(file, format=muxer_format)
    config = video_encode_config(height=48, width=63, frame_rate=25, pix_fmt=pix_fmt)
    encoder = muxer.add_encode_stream(config, encoder="rawvideo")
    with muxer.open():
        packets = encoder.encode(create_reference_video_frame(pictures, pix_fmt, 25, 0))
        assert packets is not None
        muxer.write(0, packets)
    return file.getvalue(), pictures


@pytest.mark.parametrize("pix_fmt", _FORMATS)
@pytest.mark.parametrize("muxer_format", ["avi", "nut", "matroska", "mov"])
def test_the_pixels_come_back_or_the_stream_is_refused(muxer_format: str, pix_fmt: str) -> None:
    try:
        data, pictures = _written(muxer_format, pix_fmt)
    except RuntimeError as error:
        # Some muxers say so themselves.
        said = (f"cannot hold raw pictures of {pix_fmt}", "Raw RGB is not supported")
        assert any(words in str(error) for words in said)  # noqa: PT017
        return
    frames = decode_packets(demux_video(data), filter_desc=f"format=pix_fmts={pix_fmt}")
    assert np.array_equal(to_numpy(convert_frames(frames)).reshape(pictures.shape), pictures)


@pytest.mark.parametrize("pix_fmt", ["rgb24", "gray16le", "yuv444p"])
def test_avi_has_no_name_for_these(pix_fmt: str) -> None:
    message = (
        f'"avi" cannot hold raw pictures of {pix_fmt}: what FFmpeg writes would be read as .*Choose the format "nut"'
    )
    with pytest.raises(RuntimeError, match=message):
        _written("avi", pix_fmt)


@pytest.mark.parametrize(("muxer_format", "pix_fmt"), [("avi", "bgr24"), ("nut", "rgb24"), ("nut", "gray16le")])
def test_what_is_taken(muxer_format: str, pix_fmt: str) -> None:
    assert _written(muxer_format, pix_fmt)


def test_pictures_without_a_header() -> None:
    data, pictures = _written("rawvideo", "rgb24")
    assert data == pictures.tobytes()


@pytest.mark.parametrize("muxer_format", ["avi", "mov", "nut"])
def test_palettes(muxer_format: str) -> None:
    config = video_encode_config(height=48, width=64, frame_rate=25, pix_fmt="pal8")
    Muxer(io.BytesIO(), format=muxer_format).add_encode_stream(config, encoder="rawvideo")  # Does not raise.
