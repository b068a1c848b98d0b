"""Measure the parts around the engine: subprocess pipelines, hooks, statistics and profiles.

Claims. Each is measured beside the released reference (spdl 0.8.0) in one alternating run, each round in a process of
its own, as the median of the rounds. `_surface_rows.py` has the marks.

* A pipeline in a subprocess passes a multiple of the reference's items per second, for small items and for large ones.
* Stages inside hooks pass at least as many items per second as the reference's, and the default statistics take at
  most 5 % of the rate without them.
* A profile of the demo's pipeline takes less than 10 seconds (ours alone: the reference has no such bound).

Run it as `python benchmarks/surfaces.py [--rows ROW...] [--rounds N] [--json FILE]`. The reference is installed into an
environment of its own in the user's cache. If that fails, the benchmark says so and measures ours alone.
"""

from __future__ import annotations

from pathlib import Path

from _alternating import run_table
from _surface_rows import ROWS

if __name__ == "__main__":
    work = Path(__file__).with_name("_engine_work")
    raise SystemExit(run_table("Measure the parts around the engine.", ROWS, work))
