"""Measure how large the wheels are, and how much of each is FFmpeg.

Claim: less than 12 MB each (1 MB is 1,000,000 bytes).

Run it as `python benchmarks/wheel_size.py [--json FILE] [WHEEL...]`. The exit status says whether the claim holds.
"""

import argparse
import json
import sys
import zipfile
from pathlib import Path

from spdl.cli._common.machine import provenance

LIMIT_BYTES = 12_000_000
# The folder of shared libraries, as the repair of a wheel names it. They are FFmpeg's, and its dav1d.
SHARED = "spdl_turbo.libs/"


def measure(wheel: Path) -> dict[str, int]:
    """Return the compressed bytes of a wheel, and those of its shared libraries in it."""
    with zipfile.ZipFile(wheel) as archive:
        shared = [entry.compress_size for entry in archive.infolist() if entry.filename.startswith(SHARED)]
    return {"bytes": wheel.stat().st_size, "ffmpeg_bytes": sum(shared)}


def tag(wheel: Path) -> str:
    """Return which Pythons and which machine a wheel is for, as its name says: ``cp312-abi3-x86_64``."""
    _, _, python, abi, platform = wheel.stem.split("-")
    _, _, _, machine = platform.split("_", 3)
    return f"{python}-{abi}-{machine}"


def main() -> int:
    """Measure, print the sizes, and write them if that is asked for. Return the exit status."""
    parser = argparse.ArgumentParser(description="Measure how large wheels are.")
    made = sorted((Path(__file__).parent.parent / "dist").glob("spdl_turbo-*.whl"))
    parser.add_argument("wheels", nargs="*", type=Path, default=made, metavar="WHEEL", help="default: those in dist")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()

    sizes = {tag(wheel): measure(wheel) for wheel in options.wheels}
    if len(sizes) < len(options.wheels):
        parser.error("two of these wheels are for the same Python and machine: name one version of each")
    if not sizes:
        print("not measured: there is no wheel in dist, where `make wheel` puts them")
    for name, size in sizes.items():
        print(f"{name:20} {size['bytes'] / 1e6:5.1f} MB, FFmpeg {size['ffmpeg_bytes'] / 1e6:5.1f} MB")
    if options.json:
        result = {"limit": LIMIT_BYTES, "wheels": sizes, "provenance": provenance()}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(size["bytes"] < LIMIT_BYTES for size in sizes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
