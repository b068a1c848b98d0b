"""The folders of `native` depend on each other in one direction: core <- media <- what decodes <- bindings."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"

ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "media": {"core"},
    "ffmpeg": {"core", "media"},
    "av": {"core", "media", "ffmpeg", "image"},
    "image": {"core", "media"},
    "cuda": {"core", "media"},
    "gpu": {"core", "media", "ffmpeg", "av", "image", "cuda"},
    "archive": {"core"},
    "arrays": {"core"},
    "npz": {"core", "archive", "arrays"},
    "text": set(),
    "bindings": {"core", "media", "ffmpeg", "av", "image", "cuda", "gpu", "archive", "arrays", "npz", "text"},
}
"""The folders that the files of each folder may include, besides their own."""

LIBRARIES = {
    "ffmpeg": r"<libav\w+/|<libsw\w+/",
    "image": r"<jpeglib\.h>|<jerror\.h>|<jpegint\.h>",
    "bindings": r"<Python\.h>|<nanobind/|<numpy/",
}
"""The headers of libraries that only the files of one folder may include."""

pytestmark = pytest.mark.skipif(not NATIVE.exists(), reason="needs the sources")


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in {".h", ".cpp", ".cu"})


def includes(text: str) -> Iterator[str]:
    """Yield what stands behind `#include`, with its quotes or brackets."""
    for line in text.splitlines():
        if match := re.match(r'\s*#\s*include\s*("[^"]+"|<[^>]+>)', line):
            yield match[1]


def violations(native: Path) -> list[str]:
    """Return a line for every include that its folder must not have."""
    found = []
    for path in sources(native):
        name = path.relative_to(native).as_posix()
        folder = name.split("/")[0]
        for included in includes(path.read_text()):
            if included.startswith('"'):
                other = included.strip('"').split("/")[0]
                if not (native / included.strip('"')).exists():
                    found.append(f"{name} includes {included}, which is not named from native on")
                elif other != folder and other not in ALLOWED[folder]:
                    found.append(f"{name} includes {included}: {folder} must not depend on {other}")
            found += [
                f"{name} includes {included}, which is for {owner}"
                for owner, pattern in LIBRARIES.items()
                if folder != owner and re.match(pattern, included)
            ]
    return found


def test_every_folder_is_known() -> None:
    assert {path.name for path in NATIVE.iterdir() if path.is_dir()} == set(ALLOWED)


def test_includes_point_in_one_direction() -> None:
    assert not violations(NATIVE)


def test_every_source_is_built() -> None:
    listed = set(re.findall(r"[\w/]+\.cpp", (NATIVE / "CMakeLists.txt").read_text()))
    assert listed == {path.relative_to(NATIVE).as_posix() for path in sources(NATIVE) if path.suffix == ".cpp"}


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("core/a.h", '#include "media/b.h"', "core must not depend on media"),
        ("media/a.h", '#include "ffmpeg/b.h"', "media must not depend on ffmpeg"),
        ("ffmpeg/a.cpp", '#include "image/jpeg/b.h"', "ffmpeg must not depend on image"),
        ("image/jpeg/a.cpp", '  #  include "ffmpeg/b.h"', "image must not depend on ffmpeg"),
        ("cuda/a.cpp", '#include "image/jpeg/b.h"', "cuda must not depend on image"),
        ("archive/a.cpp", '#include "arrays/b.h"', "archive must not depend on arrays"),
        ("image/plan/a.h", '#include "bindings/b.h"', "image must not depend on bindings"),
        ("media/a.h", "#include <libavutil/frame.h>", "is for ffmpeg"),
        ("core/a.h", "#include <Python.h>", "is for bindings"),
        ("image/jpeg/a.h", '#include "b.h"', "is not named from native on"),
    ],
)
def test_a_wrong_include_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    for name in ("core/b.h", "media/b.h", "ffmpeg/b.h", "image/jpeg/b.h", "arrays/b.h", "bindings/b.h", file):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#pragma once\n")
    (tmp_path / file).write_text(f"#pragma once\n{line}\n")
    found = violations(tmp_path)
    assert len(found) == 1
    assert file in found[0]
    assert complaint in found[0]
