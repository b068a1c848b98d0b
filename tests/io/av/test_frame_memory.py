"""The memory of scaled frames: what a call has freed serves the next one, and no more is kept than that is worth."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.test_scaling import needs_scalers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    needs_scalers,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, and counts Linux's page faults"),
]

_BEGIN = """
    import os, resource, sys
    from spdl.io import convert_frames, decode_packets, demux_video

    MIB = 1 << 20
    packets = demux_video(sys.argv[1])

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def frames(side):
        return decode_packets(packets.clone(), f"scale={2 * side}:{side},format=rgb24")
"""


def _run(program: str, path: Path) -> int:
    """Return the number that a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_BEGIN) + textwrap.dedent(program), str(path)],
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture
def clip_of_40(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mkv"
    source = "testsrc2=size=640x360:rate=25:duration=1.6,format=yuv420p"
    run_ffmpeg("-f", "lavfi", "-i", source, "-c:v", need_encoder("ffv1"), path)
    return path


def test_frames_do_not_take_fresh_pages(clip_of_40: Path) -> None:
    # A frame of this size has 30 pages.
    program = """
        for _ in range(3):
            convert_frames(frames(144))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            convert_frames(frames(144))
        print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // (5 * len(packets)))
    """
    assert _run(program, clip_of_40) < 5


def test_what_is_kept_of_many_sizes_is_bounded(clip_of_40: Path) -> None:
    # 40 frames of each size take 3 to 28 MiB, all of them together 180.
    program = """
        convert_frames(frames(144))
        before = resident()
        for side in range(120, 340, 16):
            convert_frames(frames(side))
        print((resident() - before) // MIB)
    """
    assert _run(program, clip_of_40) < 90


def test_what_nobody_asks_for_is_given_back(clip_of_40: Path) -> None:
    # 40 frames of 0.7 MiB would stay beside the small ones.
    program = """
        convert_frames(frames(120))
        convert_frames(frames(340))
        before = resident()
        for _ in range(40):
            convert_frames(frames(120))
        print((before - resident()) // MIB)
    """
    assert _run(program, clip_of_40) > 20
