"""The pins, and what a mistake in them says."""

from pathlib import Path

import pytest

from tests.conformance.packages import Package, packages

PIN = """
[pillow]
kind = "sdist"
version = "13.0.0"
archive = "pillow-13.0.0.tar.gz"
sha256 = "cdcd1ba258178f7356d74170c9a81ba4eab6a5d55748bc402a5a2a6fe6be3510"
"""


def read(folder: Path, text: str) -> list[Package]:
    pins = folder / "packages.toml"
    pins.write_text(text)
    return packages(pins)


def test_what_is_pinned_is_consistent() -> None:
    pinned = packages()
    assert len({package.archive for package in pinned}) == len({package.sha256 for package in pinned}) == len(pinned)
    for package in pinned:
        assert package.version in package.archive
        assert package.archive.startswith((package.name, package.name.replace("-", "_").replace(".", "_")))


def test_patterns_choose_files(tmp_path: Path) -> None:
    (package,) = read(tmp_path, PIN + 'only = ["Tests/*", "a.png"]\nwithout = ["*.gif"]')
    chosen = ["Tests/a.png", "Tests/a/b.png", "a.png", "b/a.png", "Tests/a.gif", "docs/Tests/a.png"]
    assert [name for name in chosen if package.wants(name)] == ["Tests/a.png", "Tests/a/b.png", "a.png"]
    (package,) = read(tmp_path, PIN)
    assert package.wants("anything.gif")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"sdist"', '"wheel"', "pillow: `kind` must be one of sdist, debian-source, debian, debian-pool, not 'wheel'"),
        ("3510", "351", "pillow: `sha256` must be 64 hexadecimal digits"),
        ("cdcd", "CDCD", "pillow: `sha256` must be 64 hexadecimal digits"),
        ('"sdist"', '"debian-pool"', "pillow: `sha1` belongs to archives of the kind debian-pool, and these need it"),
        ("archive =", 'sha1 = "0"\narchive =', "pillow: `sha1` belongs to archives of the kind debian-pool"),
        ("archive =", "file =", "unexpected keyword argument 'file'"),
        ("version =", "# version =", "missing 1 required positional argument: 'version'"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        read(tmp_path, PIN.replace(old, new))
