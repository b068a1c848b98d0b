"""Write what accompanies the wheels and sources of a release: a list of what is inside (SBOM), notes, and checksums.

The list is the one that the wheels have, which `scripts/bundle/sbom.py` made. The notes are the version's part of
`CHANGELOG.md`. `sha256sum --check SHA256SUMS` checks all files.

`scripts/release.sh` runs it: python3 scripts/release_files.py FOLDER [NOTES]
NOTES is a file whose text goes to the end of the notes.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent
NAME = "spdl_turbo"


def bill_of_materials(wheels: list[Path], version: str) -> str:
    """Return the list of what is inside that all wheels have."""
    found = set()
    for wheel in wheels:
        with ZipFile(wheel) as archive:
            found.add(archive.read(f"{NAME}-{version}.dist-info/sboms/{NAME}.cdx.json").decode())
    if len(found) > 1:
        names = " ".join(wheel.name for wheel in wheels)
        raise SystemExit(f"the wheels of a release have the same libraries inside, but not these: {names}")
    return found.pop()


def notes(version: str) -> str:
    """Return the part of the changelog about a version."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[{re.escape(version)}\].*?(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no part about version {version}")
    return found[0].strip() + "\n"


def checksums(folder: Path) -> str:
    """Return a line for each file of the release, as sha256sum writes and checks them."""
    lines = []
    for path in sorted(folder.glob(f"{NAME}-*")):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def main() -> None:
    """Write the three files into the folder, and print their names."""
    folder, *further = map(Path, sys.argv[1:])
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    wheels = sorted(folder.glob(f"{NAME}-{version}-*.whl"))
    if not wheels:
        raise SystemExit(f"there is no wheel of version {version} in {folder}")
    written = {
        f"{NAME}-{version}-sbom.json": bill_of_materials(wheels, version),
        f"{NAME}-{version}-notes.md": notes(version) + "".join(f"\n{more.read_text()}" for more in further),
    }
    for name, content in written.items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "SHA256SUMS").write_text(checksums(folder), encoding="utf-8")
    sys.stdout.write("".join(f"{folder / name}\n" for name in (*written, "SHA256SUMS")))


if __name__ == "__main__":
    main()
