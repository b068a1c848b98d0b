"""A reader of sound that does not begin at 0, in containers that round times to milliseconds: all calls agree."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.av import oracle
from tests.io.av.encoded import encode
from tests.io.av.sources import Sound

from spdl.io import AudioReader, to_numpy

# Container, encoder with its options, and the rate.
_KINDS = [
    ("webm", ("libopus",), 48000),
    ("mkv", ("libopus",), 48000),
    ("mkv", ("libopus", "-frame_duration", 60), 48000),
    ("mkv", ("flac",), 44100),
    ("mkv", ("flac",), 48000),
    ("mkv", ("aac", "-aac_pns", 0), 44100),
    ("mkv", ("libmp3lame",), 44100),
]


def _agree(suffix: str, encoder: tuple[object, ...], rate: int, offset: float) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"late.{suffix}"
        late = ("-output_ts_offset", f"{offset:.6f}", "-avoid_negative_ts", "disabled")
        encode(path, ["-c:a", *encoder, *late], sounds=[Sound(rate, 2, 2.3)])
        with AudioReader(path) as reader:
            whole = to_numpy(reader.read())
            # Nothing is missing in the file, so there is no silence.
            assert whole.shape[1] == oracle.samples(path).shape[0]
            assert reader.num_samples == whole.shape[1]
            for start in (0, 100, 25_000, 50_000, 77_777, whole.shape[1] - 50):
                part = to_numpy(reader.read_samples(start, start + 100))
                np.testing.assert_allclose(part, whole[:, start : start + 100], rtol=0, atol=2e-5)


@pytest.mark.parametrize("offset", [2.345, 0.0005, 0.0095, 1.0004])
@pytest.mark.parametrize(("suffix", "encoder", "rate"), _KINDS)
def test_parts_and_the_whole_agree(suffix: str, encoder: tuple[object, ...], rate: int, offset: float) -> None:
    _agree(suffix, encoder, rate, offset)


def test_flash_video() -> None:
    _agree("flv", ("libmp3lame",), 44100, 2.345)


def test_before_0() -> None:
    _agree("mkv", ("flac",), 44100, -0.5)
    _agree("mkv", ("libopus",), 48000, -0.5)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(_KINDS[:5]), st.integers(0, 100_000_000))
def test_wherever_it_begins(kind: tuple[str, tuple[object, ...], int], microseconds: int) -> None:
    _agree(*kind, microseconds / 1_000_000)
