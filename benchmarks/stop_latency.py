"""Measure how long a consumer that leaves early waits for the pipeline to stop.

Claim: of 100 random graphs whose ops take 10 ms, 95 % have stopped within the time of one op and 10 ms more, from
`break` to the end of `auto_stop`.

Run it as `python benchmarks/stop_latency.py [--rounds N] [--json FILE]`. `scripts/speed_table.py` writes the recorded
run into docs/case_studies/engine.md.
"""

from __future__ import annotations

from pathlib import Path

from _alternating import run_table
from _engine_rows import STOP_ROWS

if __name__ == "__main__":
    work = Path(__file__).with_name("_engine_work")
    raise SystemExit(run_table("Measure how long a stop takes.", STOP_ROWS, work))
