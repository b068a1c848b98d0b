"""Makes the list of what is inside a wheel (SBOM), in CycloneDX's format.

It follows from `sources.txt`, `build.txt` and `tools.txt`, which pin what the wheel is built from, so it is the same
wherever it is made. `metadata.py` puts it into the wheel (PEP 770), and a release has it from there.

Usage: sbom.py   (prints it)
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote

SCRIPTS = Path(__file__).parent
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
    path = SCRIPTS.parent.parent / "pyproject.toml"
    found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return found


def license_of_all() -> str:
    """Return the SPDX expression of a wheel: our licence, and those of all that is inside."""
    ours: str = project()["license"]
    expressions = [*LICENSES.values(), *(expression for _, expression in FROM_PYPI.values())]
    inside = {part for expression in expressions for part in expression.split(" AND ")}
    return " AND ".join([ours, *sorted(inside - {ours})])


def _component(name: str, version: str, purl: str, expression: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": f"{name}@{version}",
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [{"expression": expression}],
    }


def components() -> list[dict[str, Any]]:
    """Return a component for each library in the wheel."""
    found = []
    for line in (SCRIPTS / "sources.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, version, sha256, _, url = line.split()
        if name in NOT_INSIDE:
            continue
        if name not in LICENSES:
            raise SystemExit(f"{Path(__file__).name} does not know the licence of {name}: add it to LICENSES")
        purl = f"pkg:generic/{name}@{version}?checksum=sha256:{sha256}&download_url={quote(url, safe='')}"
        source = {"type": "source-distribution", "url": url, "hashes": [{"alg": "SHA-256", "content": sha256}]}
        found.append(_component(name, version, purl, LICENSES[name]) | {"externalReferences": [source]})
    for name, (file, expression) in FROM_PYPI.items():
        pins = (SCRIPTS / file).read_text(encoding="utf-8")
        (version,) = re.findall(rf"^{name}==(\S+)", pins, re.MULTILINE)
        found.append(_component(name, version, f"pkg:pypi/{name}@{version}", expression))
    return found


def bill_of_materials() -> str:
    """Return what is in a wheel, and what it depends on."""
    it = project()
    ours = f"{it['name']}@{it['version']}"
    inside = components()
    needed = [
        {"type": "library", "bom-ref": name, "name": name, "purl": f"pkg:pypi/{name}", "scope": "required"}
        for name in (re.split(r"[<>=~! ;\[]", each)[0] for each in it["dependencies"])
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
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
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(bill_of_materials())
