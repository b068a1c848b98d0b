"""The exact strings that the builders write: users' code and logs depend on them."""

from typing import Any

import pytest
from tests.io.images import make_jpeg

from spdl.io import demux_image, get_filter_desc, get_video_filter_desc

FIT = "scale=w=10:h=20:flags=bicubic:force_original_aspect_ratio"

CASES: list[tuple[dict[str, Any], str | None]] = [
    ({}, "format=pix_fmts=rgb24"),
    ({"pix_fmt": None}, None),
    ({"pix_fmt": "gray"}, "format=pix_fmts=gray"),
    (
        {"scale_width": 10, "scale_height": 20},
        f"{FIT}=decrease,pad=w=10:h=20:x=-1:y=-1:color=black,format=pix_fmts=rgb24",
    ),
    (
        {"scale_width": 10, "scale_height": 20, "scale_mode": None},
        "scale=w=10:h=20:flags=bicubic,format=pix_fmts=rgb24",
    ),
    (
        {"scale_width": 10, "scale_height": 20, "scale_mode": "crop"},
        f"{FIT}=increase,crop=w=10:h=20,format=pix_fmts=rgb24",
    ),
    (
        {"scale_width": 3, "scale_algo": "lanczos"},
        (
            "scale=w=3:h=0:flags=lanczos:force_original_aspect_ratio=decrease,"
            "pad=w=3:h=0:x=-1:y=-1:color=black,format=pix_fmts=rgb24"
        ),
    ),
    ({"frame_rate": (30000, 1001), "pix_fmt": None}, "fps=30000/1001"),
    ({"timestamp": (0, 1), "pix_fmt": None}, "trim=start=0:end=1"),
    ({"timestamp": (0.5, float("inf")), "pix_fmt": None}, "trim=start=0.5"),
    ({"timestamp": (float("-inf"), float("inf")), "pix_fmt": None}, None),
    ({"crop_width": 4, "pix_fmt": None}, "crop=w=4:h=0"),
    ({"num_frames": 5, "pix_fmt": None}, "tpad=stop=-1:stop_mode=clone,trim=end_frame=5"),
    (
        {"num_frames": 5, "pad_mode": "black", "pix_fmt": None},
        "tpad=stop=-1:stop_mode=add:color=black,trim=end_frame=5",
    ),
    ({"filter_desc": "hflip"}, "hflip,format=pix_fmts=rgb24"),
    (
        {
            "scale_width": 10,
            "scale_height": 20,
            "crop_width": 4,
            "crop_height": 5,
            "frame_rate": (25, 1),
            "timestamp": (1, 2),
            "num_frames": 3,
            "filter_desc": "vflip",
            "pad_mode": "red",
        },
        (
            f"fps=25/1,trim=start=1:end=2,{FIT}=decrease,pad=w=10:h=20:x=-1:y=-1:color=red,crop=w=4:h=5,"
            "tpad=stop=-1:stop_mode=add:color=red,trim=end_frame=3,vflip,format=pix_fmts=rgb24"
        ),
    ),
]


@pytest.mark.parametrize(("keywords", "expected"), CASES, ids=str)
def test_the_description_is_written_exactly_so(keywords: dict[str, Any], expected: str | None) -> None:
    assert get_video_filter_desc(**keywords) == expected
    assert get_filter_desc(**keywords) == expected
    assert get_filter_desc(demux_image(make_jpeg()), **keywords) == expected


def test_an_unknown_mode_is_named_with_what_is_accepted() -> None:
    with pytest.raises(ValueError, match="`scale_mode` must be 'pad', 'crop' or None, got 'fit'"):
        get_video_filter_desc(scale_width=1, scale_mode="fit")  # type: ignore[arg-type]


def test_other_packets_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="`packets` must be ImagePackets, AudioPackets, VideoPackets or None, got b''"):
        get_filter_desc(b"")  # type: ignore[arg-type]
