"""What is taken out of archives."""

import binascii
import hashlib
import io
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.conformance.corpus import corpus, files
from tests.conformance.packages import Package
from tests.conformance.unpack import unpack
from tests.io.images import encode, make_image

PNG = encode(make_image(9, 7), "PNG")
OTHER = encode(make_image(9, 8), "PNG")


def tar(**contents: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def uuencoded(content: bytes) -> bytes:
    lines = [binascii.b2a_uu(content[start : start + 45]) for start in range(0, len(content), 45)]
    return b"from somebody\nbegin 644 name\n" + b"".join(lines) + b"`\nend\n"


def package(folder: Path, archive: str, content: bytes, without: tuple[str, ...] = ()) -> Package:
    (folder / archive).write_bytes(content)
    return Package("some", "sdist", "1.0", archive, hashlib.sha256(content).hexdigest(), without=without)


def relative(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_of_interest_are_unpacked_once(tmp_path: Path) -> None:
    content = tar(
        **{
            "some-1.0/a.png": PNG,
            "some-1.0/tests/b.png": OTHER,
            "some-1.0/tests/b.gif": b"GIF89a",
            "some-1.0/setup.py": b"",
            "../../a.png": PNG,
            "a.png": PNG,
        }
    )
    some = package(tmp_path, "some-1.0.tar.gz", content, without=("*.gif",))
    folder = unpack(some, tmp_path / some.archive, tmp_path / "files")
    assert relative(folder) == {"a.png": PNG, "tests/b.png": OTHER}
    (tmp_path / some.archive).unlink()
    assert unpack(some, tmp_path / some.archive, tmp_path / "files") == folder
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


def test_files_of_another_version_go(tmp_path: Path) -> None:
    (tmp_path / "files" / "some-other-0123456789ab").mkdir(parents=True)
    old = package(tmp_path, "some-1.0.tar.gz", tar(**{"some/a.png": PNG}))
    unpack(old, tmp_path / old.archive, tmp_path / "files")
    new = package(tmp_path, "some-1.1.tar.gz", tar(**{"some/b.png": PNG}))
    folder = unpack(new, tmp_path / new.archive, tmp_path / "files")
    assert relative(folder) == {"b.png": PNG}
    found = {path.name for path in (tmp_path / "files").iterdir() if path.is_dir()}
    assert found == {folder.name, "some-other-0123456789ab"}


def test_zip_archives_and_uuencoded_files_are_unpacked(tmp_path: Path) -> None:
    packed = io.BytesIO()
    inner = tar(a=b"content" * 100)
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("some/", b"")
        archive.writestr("some/a.png", PNG)
        archive.writestr("some/a.tar.gz.uu", uuencoded(inner))
        archive.writestr("some/b.txt.uu", uuencoded(b"text"))
    some = package(tmp_path, "some-1.0.zip", packed.getvalue())
    folder = unpack(some, tmp_path / some.archive, tmp_path / "files")
    assert relative(folder) == {"a.png": PNG, "a.tar.gz": inner}


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb")
def test_debian_packages_are_unpacked(tmp_path: Path) -> None:
    (tmp_path / "tree" / "usr" / "share").mkdir(parents=True)
    (tmp_path / "tree" / "usr" / "share" / "a.png").write_bytes(PNG)
    (tmp_path / "tree" / "DEBIAN").mkdir()
    control = "Package: some\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <a@b.c>\nDescription: none\n"
    (tmp_path / "tree" / "DEBIAN" / "control").write_text(control)
    archive = tmp_path / "some_1.0_all.deb"
    subprocess.run(["dpkg-deb", "--build", tmp_path / "tree", archive], check=True, capture_output=True)
    some = package(tmp_path, archive.name, archive.read_bytes())
    assert relative(unpack(some, archive, tmp_path / "files")) == {"usr/share/a.png": PNG}


def test_an_archive_that_cannot_be_unpacked_leaves_nothing(tmp_path: Path) -> None:
    some = package(tmp_path, "some-1.0.tar.gz", tar(**{"some/a.png": PNG})[:100])
    with pytest.raises(EOFError):
        unpack(some, tmp_path / some.archive, tmp_path / "files")
    assert not [path for path in (tmp_path / "files").iterdir() if path.is_dir()]


def test_repeated_contents_are_read_once(tmp_path: Path) -> None:
    for name, content in {"one/a.png": PNG, "one/b.png": PNG, "two/a.png": PNG, "two/c.png": OTHER}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    found = files({"one": tmp_path / "one", "two": tmp_path / "two"})
    assert [(file.label, file.format, file.path.read_bytes()) for file in found] == [
        ("one/a.png", "PNG", PNG),
        ("two/c.png", "PNG", OTHER),
    ]


def test_the_corpus_is_what_the_packages_hold(tmp_path: Path) -> None:
    (tmp_path / "archives").mkdir()
    some = package(tmp_path / "archives", "some-1.0.tar.gz", tar(**{"some/a.png": PNG}))
    said: list[str] = []
    (file,) = corpus([some], tmp_path, said.append)
    assert (file.label, file.format, said) == ("some/a.png", "PNG", [])
