"""Measure `import spdl` and `import spdl.pipeline` in a program that has imported nothing else.

Claim: less than 60 ms each in the median.

Run it as `python benchmarks/import_time.py [--rounds N] [--json FILE]`. Each import is timed in a fresh interpreter,
modules in turns. The exit status says whether the claim holds.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from spdl.cli._common.machine import provenance

LIMIT_MILLISECONDS = 60
MODULES = ("spdl", "spdl.pipeline")
CODE = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def measure(module: str) -> float:
    """Return the milliseconds that the import takes in an interpreter of its own."""
    command = [sys.executable, "-c", CODE.format(module)]
    return 1000 * float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> int:
    """Measure, print the medians, and write all figures if that is asked for. Return the exit status."""
    parser = argparse.ArgumentParser(description="Measure what importing costs.")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()

    # The first import writes the bytecode, which an installed package already has.
    for module in MODULES:
        measure(module)
    figures: dict[str, list[float]] = {module: [] for module in MODULES}
    for _ in range(options.rounds):
        for module in MODULES:
            figures[module].append(measure(module))

    for module, milliseconds in figures.items():
        print(f"import {module:14} median {statistics.median(milliseconds):5.1f} ms, worst {max(milliseconds):5.1f} ms")
    if options.json:
        result = {"limit": LIMIT_MILLISECONDS, "milliseconds": figures, "provenance": provenance()}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(statistics.median(milliseconds) < LIMIT_MILLISECONDS for milliseconds in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
