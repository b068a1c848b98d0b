"""What a batch of sound takes besides its result, and what a reader takes for its file."""

from __future__ import annotations

import io
import json
import sys
import wave
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.io.av.encoded import audio
from tests.io.av.sources import Sound
from tests.io.processes import passes, say

from spdl.io import AudioReader, load_audio_batch

_MIB = 1 << 20
# For each: how many sounds, their seconds, and the arguments of the batch.
_BATCHES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "few long ones": (4, 80, {}),
    "a single one": (1, 320, {}),
    "many short ones": (400, 1, {}),
    "of a known size": (400, 1, {"num_frames": 48000}),
    "cut": (8, 80, {"num_frames": 24000 * 80}),
    "by two threads": (16, 20, {"num_threads": 2}),
}


def _sound(seconds: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(48000)
        out.writeframes(bytes(range(1, 97)) * 1000 * seconds)
    return file.getvalue()


def _memory(name: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    return int(lines[name].split()[0]) * 1024


def report() -> None:
    """Print how much each batch takes, and how much more there was at the worst moment."""
    load_audio_batch([_sound(1)] * 2, sample_rate=None)
    found = {}
    for name, (count, seconds, arguments) in _BATCHES.items():
        source = _sound(seconds)
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # Forgets the peak.
        before = _memory("VmRSS")
        batch = load_audio_batch([source] * count, sample_rate=None, **arguments)
        size = 4
        for side in batch.samples.shape:
            size *= side
        found[name] = (size, _memory("VmHWM") - before)
    say(json.dumps(found))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_no_batch_is_in_memory_twice() -> None:
    found = json.loads(passes(report))
    assert set(found) == set(_BATCHES)
    for name, (size, peak) in found.items():
        assert size >= 30 * _MIB, name
        # Each thread may have pieces of 2 MiB that it is putting away.
        assert peak < size * 1.1 + 14 * _MIB, f"{name}: {peak / size:.2f} of its size"


def report_reader() -> None:
    """Print how many bytes a long file of AC-3 has, and how much memory it takes to measure it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "long.ac3"
        audio("ac3", "-b:a", "640k", sound=Sound(48000, 2, 2.048)).make(path)
        count = AudioReader(path).num_samples
        path.write_bytes(path.read_bytes() * 200)
        Path("/proc/self/clear_refs").write_text("5", "ascii")
        before = _memory("VmRSS")
        assert AudioReader(path).num_samples == count * 200
        say(json.dumps([path.stat().st_size, _memory("VmHWM") - before]))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_a_reader_does_not_keep_its_packets() -> None:
    size, peak = json.loads(passes(report_reader))
    assert size > 30 * _MIB
    assert peak < size / 3
