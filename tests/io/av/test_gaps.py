"""Sound whose times leave gaps: a reader, which counts by time, fills them with silence."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.io import AudioReader, Muxer, audio_encode_config, create_reference_audio_frame, load_audio, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

_RATE = 8000
_NOISE = np.random.default_rng(3).integers(-20000, 20000, (6000, 2), np.int16)
# Where the pieces of the sound lie: there is a gap of 2000 samples, and one of 30004.
_PIECES = ((0, 0, 2000), (4000, 2000, 3500), (35504, 3500, 6000))


def _whole(first: int = 0) -> Any:
    """Return the sound with silence in its gaps."""
    end = _PIECES[-1][0] + 2500
    whole = np.zeros((end, 2), np.int16)
    for place, start, stop in _PIECES:
        whole[place : place + stop - start] = _NOISE[start:stop]
    return whole[first:].T


def _write(path: Path, encoder: str, first: int = 0) -> Path:
    muxer = Muxer(path)
    config = audio_encode_config(num_channels=2, sample_rate=_RATE, sample_fmt="s16")
    made = muxer.add_encode_stream(config, encoder=encoder)
    with muxer.open():
        for place, start, stop in _PIECES:
            packets = made.encode(create_reference_audio_frame(_NOISE[start:stop], "s16", _RATE, first + place))
            if packets is not None:
                muxer.write(0, packets)
    return path


@pytest.fixture(params=[("nut", "pcm_s16le", 0), ("mkv", "pcm_s16le", 0), ("mkv", "pcm_s16le", 80_000)])
def gaps(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    suffix, encoder, first = request.param
    return _write(tmp_path / f"gaps.{suffix}", encoder, first)


def test_all_of_it(gaps: Path) -> None:
    with AudioReader(gaps, dtype="int16") as reader:
        expected = _whole()
        assert reader.num_samples == expected.shape[1]
        assert reader.duration == expected.shape[1] / _RATE
        assert np.array_equal(to_numpy(reader.read()), expected)
    # Who loads the whole gets what there is.
    assert to_numpy(load_audio(gaps)).shape == (2, len(_NOISE))


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 10),
        (1990, 2010),
        (1999, 4001),
        (2000, 2001),
        (2500, 3000),
        (3999, 4000),
        (3000, 4100),
        (5499, 35506),
        (5500, 35504),
        (20000, 20100),
        (30000, 36000),
        (100, 38000),
        (38000, 38001),
    ],
)
def test_parts_across_gaps(gaps: Path, start: int, stop: int) -> None:
    with AudioReader(gaps, dtype="int16") as reader:
        assert np.array_equal(to_numpy(reader.read_samples(start, stop)), _whole()[:, start:stop])


@pytest.mark.parametrize("rate", [4000, 16000, 11025])
def test_resampled_parts_are_those_of_the_resampled_whole(gaps: Path, rate: int) -> None:
    with AudioReader(gaps, sample_rate=rate) as reader:
        whole = to_numpy(reader.read())
        assert whole.shape[1] == reader.num_samples
        assert abs(whole.shape[1] - _whole().shape[1] * rate / _RATE) <= 2
        again = pickle.loads(pickle.dumps(reader))
        for start, stop in (
            (0, 300),
            (rate // 4 - 20, rate // 2 + 20),
            (3 * rate, 3 * rate + 50),
            (whole.shape[1] - 1, None),
        ):
            part = to_numpy(again.read_samples(start, stop))
            np.testing.assert_allclose(part, whole[:, start:stop], atol=1e-6)
        # In the middle of the long gap there is nothing.
        assert not np.abs(to_numpy(reader.read(2, 3))).max() > 1e-6


def test_a_gap_of_years_is_not_filled(tmp_path: Path) -> None:
    muxer = Muxer(tmp_path / "years.nut")
    config = audio_encode_config(num_channels=1, sample_rate=_RATE, sample_fmt="s16")
    made = muxer.add_encode_stream(config, encoder="pcm_s16le")
    with muxer.open():
        for pts in (0, _RATE * 100_000_000):
            packets = made.encode(create_reference_audio_frame(np.ones((4000, 1), np.int16), "s16", _RATE, pts))
            assert packets is not None
            muxer.write(0, packets)
    with AudioReader(tmp_path / "years.nut") as reader:
        assert reader.duration == pytest.approx(100_000_000.5)
        with pytest.raises(RuntimeError, match="a gap of 99999999 s in the sound at 0 s, and at most a day is filled"):
            reader.read()
        assert to_numpy(reader.read(0, "0.5")).shape == (1, 4000)
        assert to_numpy(reader.read(99_999_999, 100_000_000)).shape == (1, _RATE)
        assert np.abs(to_numpy(reader.read(100_000_000))).min() > 0
