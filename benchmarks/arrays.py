"""Measure loading arrays and archives: calls per second, beside other libraries on the same bytes.

Claims. Each is measured beside the contender it names in one alternating run, each round in a process of its own, as
the median of the rounds. `_arrays_rows.py` has the marks.

* Data that needs no copy is a view: npy and stored npz, tar and wav load at a multiple of the rate of the released
  reference (spdl 0.8.0), in one thread and in two that share the GIL.
* Deflated data is inflated as fast as libdeflate alone inflates the same bytes into a reused buffer with the checksum
  that a zip archive asks for. The rate of libdeflate without the checksum is shown as well.
* A batch of archives in one call with two threads nearly doubles the rate of one thread.

Calls of one thread are counted per CPU-second. Run it as
`python benchmarks/arrays.py [--rows ROW...] [--rounds N] [--json FILE]`. The reference is installed into an environment
of its own in the user's cache. If that fails, the benchmark says so and measures the others alone.
"""

from __future__ import annotations

from pathlib import Path

from _alternating import run_table
from _arrays_rows import ROWS

if __name__ == "__main__":
    work = Path(__file__).with_name("_arrays_work")
    raise SystemExit(run_table("Measure loading arrays and archives.", ROWS, work))
