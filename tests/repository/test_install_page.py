"""The page about installing gives the measured figures."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_what_the_stable_abi_costs() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "stable_abi.json").read_text(encoding="utf-8"))
    ratios = [row["ratio"] for row in record["rows"].values()]
    least, most = (100 * (ratio - 1) for ratio in (min(ratios), max(ratios)))
    assert least < 0 < most < 100 * (record["mark"] - 1)
    text = " ".join((ROOT / "docs" / "install.md").read_text(encoding="utf-8").split())
    assert f"between {-least:.1f} % less and {most:.1f} % more than" in text


def test_the_packages_that_a_build_from_source_takes() -> None:
    setup = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    (array,) = re.findall(r"^readonly libraries=\((.*?)^\)", setup, re.MULTILINE | re.DOTALL)
    # Only the benchmarks need libturbojpeg.
    wanted = set(re.findall(r"^  \".*:(lib\S+)\"", array, re.MULTILINE)) - {"libturbojpeg0-dev"}
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"On Debian and Ubuntu it takes `(.*?)`", text, re.DOTALL)
    assert wanted == {name for name in said.split() if name.startswith("lib")}


def test_the_sizes_are_those_of_the_record() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "wheel_size.json").read_text(encoding="utf-8"))
    assert all(size["bytes"] < record["limit"] for size in record["wheels"].values())
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (of_each,) = re.findall(r"^Each wheel has ([\d.]+) MB, and ([\d.]+) MB if it is for ARM", text, re.MULTILINE)
    (of_ffmpeg,) = re.findall(r"shared, ([\d.]+) MB of the wheel \(([\d.]+) MB for ARM\)", text)
    for column, machine in enumerate(("x86_64", "aarch64")):
        sizes = [size for name, size in record["wheels"].items() if name.endswith(machine)]
        assert {f"{size['bytes'] / 1e6:.1f}" for size in sizes} == {of_each[column]}
        assert {f"{size['ffmpeg_bytes'] / 1e6:.1f}" for size in sizes} == {of_ffmpeg[column]}
