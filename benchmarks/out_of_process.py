"""Measure what it costs to bring items from another process.

Claims: arrays of 32 MiB come at 0.9 of the rate at which one core copies memory, since they are copied once. A channel
carries more than 200,000 small items per second in batches of 64, and a million of them take no more memory than
100,000, through a channel or through a region. Photos that another process decodes into shared memory come at 0.97 of
the rate of the same work in threads of this process. Handing over a small item takes no more than 1.5 times as long as
waking the other process by an eventfd (median), and no more than twice as long in 99 of 100 cases.

Run it as `python benchmarks/out_of_process.py [--rows ROW...] [--rounds N] [--json FILE]`.
"""

from __future__ import annotations

from pathlib import Path

from _alternating import run_table
from _out_of_process_rows import OUT_OF_PROCESS_ROWS

if __name__ == "__main__":
    work = Path(__file__).with_name("_out_of_process_work")
    raise SystemExit(run_table("Measure items from another process.", OUT_OF_PROCESS_ROWS, work))
