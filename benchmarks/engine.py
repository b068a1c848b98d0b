"""Measure the engine: items per second, time of a single item, efficiency of sleeping ops, disturbance of others.

Claims. Each is measured beside the contender it names in one alternating run, each round in a process of its own, as
the median of the rounds. `_engine_rows.py` has the marks.

* Stages that do nothing pass a multiple of the items per second of the released reference (spdl 0.8.0). On a user's
  executor, they pass half of the items of bare `submit` and callback.
* A single item passes in a fraction of the reference's time.
* Stages that unpack and hash, which is work for the processor, reach the rate of the same number of plain threads.
* Sleeping stages reach min(c_i / d_i, threads / sum d_i), where c_i is a stage's concurrency and d_i its op's duration
  measured alone, and no item is overtaken by more than the items in flight.
* The steps of a training loop run as evenly as beside one bare thread that does the loader's work.

Run it as `python benchmarks/engine.py [--rows ROW...] [--rounds N] [--json FILE]`. The reference is installed into an
environment of its own in the user's cache; where that fails the benchmark says so and measures the others alone.
`scripts/speed_table.py` writes the recorded run into docs/case_studies/engine.md.
"""

from __future__ import annotations

from pathlib import Path

from _alternating import run_table
from _engine_rows import ROWS

if __name__ == "__main__":
    work = Path(__file__).with_name("_engine_work")
    raise SystemExit(run_table("Measure the engine's overhead and efficiency.", ROWS, work))
