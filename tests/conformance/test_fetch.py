"""Archives are fetched once, and only the pinned one is taken."""

import hashlib
import io
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance import fetch as fetching
from tests.conformance.fetch import FetchError, fetch
from tests.conformance.packages import Package

CONTENT = b"an archive"
PACKAGE = Package("some", "sdist", "1.0", "some-1.0.tar.gz", hashlib.sha256(CONTENT).hexdigest())


class Client:
    """Stands for the clients of the registries: it writes files into the folder that it is told."""

    def __init__(self) -> None:
        self.files = {PACKAGE.archive: CONTENT}
        self.commands: list[Sequence[str]] = []

    def __call__(self, package: Package, folder: Path, command: Sequence[str], within: Path | None = None) -> None:
        self.commands.append(command)
        if command[-1] == "update":
            return
        target = within or Path(command[command.index("--download") + 1])
        for name, content in self.files.items():
            (target / name).write_bytes(content)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    fake = Client()
    monkeypatch.setattr(fetching, "_run", fake)
    return fake


def test_an_archive_is_fetched_once(tmp_path: Path, client: Client) -> None:
    assert fetch(PACKAGE, tmp_path / "archives").read_bytes() == CONTENT
    assert fetch(PACKAGE, tmp_path / "archives").read_bytes() == CONTENT
    assert len(client.commands) == 1
    assert client.commands[0][-1] == "some==1.0"
    assert [path.name for path in (tmp_path / "archives").iterdir()] == [PACKAGE.archive]


def test_a_damaged_archive_is_fetched_again(tmp_path: Path, client: Client) -> None:
    (tmp_path / PACKAGE.archive).write_bytes(CONTENT[:-1])
    assert fetch(PACKAGE, tmp_path).read_bytes() == CONTENT
    assert len(client.commands) == 1


def test_another_archive_than_the_pinned_one_is_refused(tmp_path: Path, client: Client) -> None:
    client.files = {PACKAGE.archive: b"another"}
    found = hashlib.sha256(b"another").hexdigest()
    message = f"cannot fetch some 1.0: what was fetched has the SHA-256 {found}.*by hand, or pin another version"
    with pytest.raises(FetchError, match=message):
        fetch(PACKAGE, tmp_path)
    client.files = {"some-1.1.tar.gz": CONTENT}
    with pytest.raises(FetchError, match=r"the client fetched some-1\.1\.tar\.gz"):
        fetch(PACKAGE, tmp_path)
    client.files = {}
    with pytest.raises(FetchError, match="the client fetched nothing"):
        fetch(PACKAGE, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_debians_client_writes_nowhere_else(tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = tmp_path / "keyring.gpg"
    monkeypatch.setattr(fetching, "_KEYRING", str(keyring))
    source, binary = (replace(PACKAGE, kind=kind) for kind in ("debian-source", "debian"))
    with pytest.raises(FetchError, match="apt-get install debian-archive-keyring"):
        fetch(source, tmp_path / "archives")
    keyring.touch()
    fetch(source, tmp_path / "archives").unlink()
    fetch(binary, tmp_path / "archives")
    assert [command[-1] for command in client.commands] == ["update", "some", "some=1.0"]
    assert [command[-2] for command in client.commands[1:]] == ["--tar-only", "download"]
    lists = tmp_path / "archives" / "apt" / "state" / "fetched"
    os.utime(lists, (0, 0))
    client.files["other"] = CONTENT
    fetch(replace(source, archive="other"), tmp_path / "archives")
    assert [command[-1] for command in client.commands[3:]] == ["update", "some"]
    for command in client.commands:
        options = dict(each.removeprefix("-o").split("=", 1) for each in command if each.startswith("-o"))
        for name in ("Dir::State", "Dir::Cache", "Dir::Etc::sourcelist"):
            assert Path(options[name]).is_relative_to(tmp_path / "archives" / "apt")


@pytest.mark.parametrize(
    ("name", "place"),
    [("some+", "pool/main/s/some%2B/some%2B-1.0.tar.gz"), ("libsome", "pool/main/libs/libsome/libsome-1.0.tar.gz")],
)
def test_the_pool_is_asked_before_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    package = replace(PACKAGE, name=name, kind="debian-pool", archive=f"{name}-1.0.tar.gz", sha1="0123ab")
    asked: list[str] = []

    def urlopen(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        if len(asked) < answers:
            raise urllib.error.URLError(f"no {timeout:.0f}")
        return io.BytesIO(CONTENT)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    answers = 1
    fetch(package, tmp_path).unlink()
    assert len(asked) == 1
    assert asked[0].endswith(place)
    asked.clear()
    answers = 2
    assert fetch(package, tmp_path).read_bytes() == CONTENT
    assert len(asked) == 2
    assert asked[1].endswith("/file/0123ab")
    (tmp_path / package.archive).unlink()
    asked.clear()
    answers = 3
    with pytest.raises(FetchError, match=r"no 120>; .*/file/0123ab: <urlopen error no 120>\. The archive"):
        fetch(package, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_client_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho first >&2\necho cannot find it >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(
        FetchError, match=r"cannot fetch some 1\.0: python failed: cannot find it\. The archive is some-1"
    ):
        fetch(PACKAGE, tmp_path / "archives")
    program.unlink()
    with pytest.raises(FetchError, match=r"cannot fetch some 1\.0: .*No such file"):
        fetch(PACKAGE, tmp_path / "archives")
