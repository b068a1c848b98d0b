"""What the engine costs: items per second, time of a single item, efficiency where ops sleep, unrest beside it.

Claims, each measured beside what it names in one alternating run, each round in a process of its own, medians of the
rounds; `_engine_rows.py` has the marks:

* stages that do nothing pass a multiple of the items per second that the released reference (spdl 0.8.0) passes, and
  on an executor of the user's half of what bare `submit` and callback do;
* a single item is through in a fraction of the reference's time;
* stages that unpack and hash, which is work for the processor, reach what as many plain threads do with it;
* sleeping stages reach min(c_i / d_i, threads / sum d_i), where c_i is a stage's concurrency and d_i its op's duration
  measured alone, and nobody is overtaken by more than the items in flight;
* the steps of a training loop run as evenly as beside one bare thread that does the loader's work.

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
