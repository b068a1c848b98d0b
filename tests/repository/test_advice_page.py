"""The figures on the page of `spdl advise` are those of the recorded run."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_quotes_the_record() -> None:
    page = " ".join((ROOT / "docs" / "measuring.md").read_text(encoding="utf-8").split())
    record = json.loads((ROOT / "benchmarks" / "results" / "advise.json").read_text(encoding="utf-8"))
    figures, rounds = record["figures"], record["rounds"]
    assert all(record["held"].values())
    least, middle, most = sorted(abs(round(100 * figures[job]["cost"], 1)) for job in rounds)
    runs = 2 * len(next(iter(rounds.values())))
    counted = {6: "six", 8: "eight", 10: "ten", 12: "twelve"}[runs]
    assert f"take {least:.1f}, {middle:.1f} and {most:.1f} % more (medians of {counted} pairs of runs;" in page
    assert f"Some {figures['step_microseconds']:.0f} microseconds for a step" in page
    assert f"{figures['start_cpu']:.2f} seconds of CPU for the command itself" in page
    verdicts = sum(map(len, rounds.values()))
    assert f"the verdict was right {verdicts} of {verdicts} times" in page
    decoding, pickling = figures["starved_by_decoding"], figures["starved_by_pickling"]
    assert f"{decoding['predicted_gain']:.2f}x was predicted, and an epoch was {decoding['gain']:.2f}x as fast" in page
    assert f"{pickling['predicted_gain']:.0f}x was predicted, and the epoch was {pickling['gain']:.0f}x as fast" in page
