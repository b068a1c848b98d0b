"""Write what accompanies the wheels and sources of a release: a list of what is inside (SBOM), notes, and checksums.

The list is in CycloneDX's format, made from `scripts/bundle/sources.txt`, which pins what the wheel is built from. The
notes are the version's part of `CHANGELOG.md`. `sha256sum --check SHA256SUMS` checks all files.

`scripts/release.sh` runs it: python3 scripts/release_files.py FOLDER
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parent.parent
NAME = "spdl_turbo"
LICENSES = {
    "zlib": "Zlib",
    "libjpeg-turbo": "IJG AND BSD-3-Clause",
    "libdeflate": "MIT",
    "libzstd": "BSD-3-Clause",
    "dav1d": "BSD-2-Clause",
    "libwebp": "BSD-3-Clause",
    "libyuv": "BSD-3-Clause",
    "libavif": "BSD-2-Clause",
    "openjpeg": "BSD-2-Clause",
    "libtiff": "libtiff",
    "libvpx": "BSD-3-Clause",
    "opus": "BSD-3-Clause",
    "ffmpeg": "LGPL-2.1-or-later",
}
"""The SPDX expression of each library in the wheel."""

FROM_PYPI = {
    "nanobind": ("build.txt", "BSD-3-Clause AND MIT"),
    "ziglang": ("tools.txt", "MIT AND Apache-2.0 WITH LLVM-exception"),
}
"""What else a wheel has parts of, the bindings and the C++ library: the file that pins it, and its SPDX expression."""

NOT_INSIDE = ("python",)
"""What is pinned beside the libraries, and is in no wheel."""


def project() -> dict[str, Any]:
    """Return the project's metadata."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def libraries() -> list[dict[str, Any]]:
    """Return a component for each library in the wheel."""
    found = []
    for line in (ROOT / "scripts" / "bundle" / "sources.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, version, sha256, _, url = line.split()
        if name in NOT_INSIDE:
            continue
        if name not in LICENSES:
            raise SystemExit(f"scripts/release_files.py does not know the licence of {name}: add it to LICENSES")
        found.append(
            {
                "type": "library",
                "bom-ref": f"{name}@{version}",
                "name": name,
                "version": version,
                "purl": f"pkg:generic/{name}@{version}?download_url={quote(url, safe='')}&checksum=sha256:{sha256}",
                "licenses": [{"expression": LICENSES[name]}],
                "externalReferences": [
                    {
                        "type": "source-distribution",
                        "url": url,
                        "hashes": [{"alg": "SHA-256", "content": sha256}],
                    }
                ],
            }
        )
    for name, (file, expression) in FROM_PYPI.items():
        pins = (ROOT / "scripts" / "bundle" / file).read_text(encoding="utf-8")
        (version,) = re.findall(rf"^{name}==(\S+)", pins, re.MULTILINE)
        found.append(
            {
                "type": "library",
                "bom-ref": f"{name}@{version}",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "licenses": [{"expression": expression}],
            }
        )
    return found


def bill_of_materials(when: str) -> dict[str, Any]:
    """Return what is in a wheel of the release, and what it depends on."""
    it = project()
    ours = f"{it['name']}@{it['version']}"
    inside = libraries()
    needed = [
        {"type": "library", "bom-ref": name, "name": name, "purl": f"pkg:pypi/{name}", "scope": "required"}
        for name in (re.split(r"[<>=~! ;\[]", each)[0] for each in it["dependencies"])
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": when,
            "component": {
                "type": "library",
                "bom-ref": ours,
                "name": it["name"],
                "version": it["version"],
                "purl": f"pkg:pypi/{ours}",
                "licenses": [{"license": {"id": it["license"]}}],
            },
        },
        "components": [*inside, *needed],
        "dependencies": [{"ref": ours, "dependsOn": [each["bom-ref"] for each in (*inside, *needed)]}],
    }


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
    folder = Path(sys.argv[1])
    version = project()["version"]
    if not list(folder.glob(f"{NAME}-{version}-*.whl")):
        raise SystemExit(f"there is no wheel of version {version} in {folder}")
    command = ["git", "log", "-1", "--format=%cI"]
    when = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    written = {
        f"{NAME}-{version}-sbom.json": json.dumps(bill_of_materials(when), indent=2) + "\n",
        f"{NAME}-{version}-notes.md": notes(version),
    }
    for name, content in written.items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "SHA256SUMS").write_text(checksums(folder), encoding="utf-8")
    sys.stdout.write("".join(f"{folder / name}\n" for name in (*written, "SHA256SUMS")))


if __name__ == "__main__":
    main()
