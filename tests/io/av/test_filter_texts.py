"""Filter texts that say the same in other words have the same frames, by the same way.

The ffmpeg command is the oracle. It need not be the FFmpeg that is tested, so whole filter graphs are compared, too: a
filter that does nothing in front of a text has everything run in one.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.test_scaling import frames_of, needs_scalers, same_as_the_filters
from tests.io.inside import tried_scalers

from spdl.io import decode_packets, demux_video

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ALGORITHMS = ("area", "bilinear", "bicubic", "lanczos")

# All scale to this size.
_SIZE = (96, 54)
_SCALES = {
    "positions": "scale=96:54:flags=bicubic",
    "names": "scale=width=96:height=54:flags=bicubic",
    "a size": "scale=size=96x54:flags=bicubic",
    "a size without a name": "scale=96x54:flags=bicubic",
    "another order": "scale=flags=bicubic:h=54:w=96",
    "quotes and spaces": " scale = w='96' : h=54:flags='bicubic' ",
    "formulas": "scale=12*8:108/2:flags=bicubic",
}


def noise(path: Path, size: str, pix_fmt: str = "yuv420p", seconds: float = 0.4) -> Path:
    """Make a clip of noise in front of moving shapes."""
    source = f"testsrc2=size={size}:rate=25:duration={seconds},noise=alls=90:allf=t,format={pix_fmt}"
    run_ffmpeg("-f", "lavfi", "-i", source, "-c:v", need_encoder("ffv1"), path)
    return path


@needs_scalers
@pytest.mark.parametrize("pix_fmt", ["rgb24", "yuv420p"])
@pytest.mark.parametrize("words", _SCALES)
def test_other_words(tmp_path: Path, words: str, pix_fmt: str) -> None:
    # A size for each, as scalers are kept.
    width, height = 320 + 2 * [*_SCALES].index(words), 180
    path = noise(tmp_path / "noise.mkv", f"{width}x{height}")
    plain = f"scale=w=96:h=54:flags=bicubic,format=pix_fmts={pix_fmt}"
    for way in (f"format={pix_fmt}", f"format = '{pix_fmt}'"):
        desc = f"{_SCALES[words]},{way}"
        found = frames_of(path, desc)
        assert np.array_equal(found[2], frames_of(path, f"null,{plain}")[2])
        same_as_the_filters(path, desc)
        assert tried_scalers(pix_fmt)[(width, height, *_SIZE)], "the fast way was not taken"


@needs_scalers
def test_no_flags_are_bicubic(tmp_path: Path) -> None:
    path = noise(tmp_path / "noise.mkv", "352x200")
    found = frames_of(path, "scale=96:54,format=rgb24")
    assert tried_scalers()[(352, 200, *_SIZE)]
    assert np.array_equal(found[2], frames_of(path, "scale=96:54:flags=bicubic,format=rgb24")[2])
    same_as_the_filters(path, "scale=96:54,format=rgb24")


@needs_scalers
@pytest.mark.parametrize("algorithm", _ALGORITHMS)
def test_planes_that_stay_planes(tmp_path: Path, algorithm: str) -> None:
    """With sides that are odd, too, on a canvas of even ones, as arrays have no odd planes."""
    draw = random.Random(algorithm)
    for size in ("320x180", "323x181"):
        path = noise(tmp_path / f"{size}.mkv", size)
        for width, height in [(96, 54), *((draw.randrange(20, 200), draw.randrange(20, 120)) for _ in range(4))]:
            canvas = f"pad={width + width % 2}:{height + height % 2}:-1:-1"
            desc = f"scale={width}:{height}:flags={algorithm},{canvas},format=yuv420p"
            same_as_the_filters(path, desc)
            planes = frames_of(path, desc)[2]
            assert np.array_equal(planes.reshape(len(planes), -1), oracle.pictures(path, pix_fmt="", filters=desc))
    assert tried_scalers("yuv420p")[(320, 180, *_SIZE)], "the fast way was not taken"


@needs_scalers
@pytest.mark.parametrize("size", ["97:54", "96:53", "97:53"])
def test_planes_of_odd_pictures_are_padded_as_by_ffmpeg_after_a_black_first_one(tmp_path: Path, size: str) -> None:
    """From the first picture nobody can tell which chroma belongs to the padding."""
    path = tmp_path / "fade.mkv"
    source = "testsrc2=size=320x180:rate=25:duration=0.3,fade=in:0:4,format=yuv420p"
    run_ffmpeg("-f", "lavfi", "-i", source, "-c:v", need_encoder("ffv1"), path)
    desc = f"scale={size}:flags=bicubic,pad=120:120:-1:-1,format=yuv420p"
    planes = frames_of(path, desc)[2]
    assert np.array_equal(planes.reshape(len(planes), -1), oracle.pictures(path, pix_fmt="", filters=desc))


@pytest.mark.parametrize("color", ["yuv420p", "yuvj420p", "yuv422p", "gray"])
def test_random_texts(tmp_path: Path, color: str) -> None:
    draw = random.Random(color)
    for size in ("128x72", "97x61"):
        path = noise(tmp_path / f"{size}.mkv", size, color)
        for _ in range(12):
            same_as_the_filters(path, random_text(draw))


def random_text(draw: random.Random) -> str:
    width, height = (draw.choice([draw.randrange(2, 160), 2 * draw.randrange(1, 80)]) for _ in range(2))
    flags = draw.choice(["", *(f":flags={it}" for it in (*_ALGORITHMS, "neighbor", "fast_bilinear", "spline"))])
    scale = draw.choice(
        [
            f"scale={width}:{height}{flags}",
            f"scale=w={width}:h={height}{flags}",
            f"scale=iw/2:ih/3{flags}",
            f"scale={width}:-2{flags}",
            f"scale={width}:{height}{flags}:force_original_aspect_ratio=increase,crop={width}:{height}",
            (
                f"scale={width}:{height}{flags}:force_original_aspect_ratio=decrease,"
                f"pad={width}:{height}:(ow-iw)/2:(oh-ih)/2{draw.choice(['', ':red', ':color=black'])}"
            ),
        ]
    )
    before = draw.choice(["", "fps=10,", "fps=60/1,", "trim=0.1:0.3,", "fps,"])
    after = draw.choice(["", "", ",hflip", ",vflip", ",tpad=stop=-1:stop_mode=clone,trim=end_frame=12"])
    # Without a format at the end, the frames are of the clip's.
    return f"{before}{scale}{after},{draw.choice(['format=rgb24', 'format=pix_fmts=yuv420p', 'format=gray', 'null'])}"


def test_what_ffmpeg_refuses_is_refused(clip: Callable[[str], Path]) -> None:
    for desc in ("scale=96:54,format=nosuch", "scale=96:54:nosuch=1,format=rgb24", "scale=96:54,,format=rgb24"):
        with pytest.raises(RuntimeError, match="cannot apply the filter description"):
            decode_packets(demux_video(clip("h264.mp4")), desc)
