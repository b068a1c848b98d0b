"""Makes the metadata of a wheel true of what has been put inside. Runs on the Python of tools.sh.

Usage: metadata.py WHEEL...   (with python -B, as what this folder holds goes into the next wheel)

pyproject.toml speaks for the sources: their licence, and whatever NumPy. This wheel has other licences inside, too, and
says what it is made of (`sbom.py`). The one for the free-threaded 3.13 runs on no NumPy after 2.4, the last that has
wheels for that Python; without a bound pip would compile the newest, for its rule is the version first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import sbom
from auditwheel.wheeltools import InWheel

if TYPE_CHECKING:
    from collections.abc import Iterator


def rewritten(lines: list[str], wheel: Path, notices: list[str]) -> Iterator[str]:
    """Yield the lines of METADATA for this wheel, whose notices have these names below its folder of licences."""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "License-Expression":
            yield f"{name}: {sbom.license_of_all()}"
        elif name == "Requires-Dist" and value.startswith("numpy") and "-cp313t-" in wheel.name:
            yield f"{line},<2.5"
        else:
            yield line
        if line == "License-File: LICENSE":
            yield from (f"License-File: {notice}" for notice in notices)


def rewrite(wheel: Path) -> None:
    """Replace the wheel by one that has other metadata."""
    with InWheel(wheel, wheel) as root:
        (info,) = root.glob("*.dist-info")
        folder = info / "licenses"
        # To be run by whoever replaces FFmpeg. Whatever built the wheel has made all files alike.
        for script in folder.glob("third_party/ffmpeg/scripts/*.sh"):
            script.chmod(0o755)
        # The scripts that built FFmpeg lie there because its licence asks for them; they are none themselves.
        notices = sorted(
            str(path.relative_to(folder))
            for path in folder.rglob("third_party/**/*")
            if path.is_file() and "scripts" not in path.parts
        )
        head, blank, text = (info / "METADATA").read_text(encoding="utf-8").partition("\n\n")
        head = "\n".join(rewritten(head.split("\n"), wheel, notices))
        (info / "METADATA").write_text(head + blank + text, encoding="utf-8")
        (info / "sboms").mkdir(exist_ok=True)
        (info / "sboms" / "spdl_turbo.cdx.json").write_text(sbom.bill_of_materials(), encoding="utf-8")


for name in sys.argv[1:]:
    rewrite(Path(name).resolve())
