"""Archives of which one is cut short, damaged or missing: an error that names it, or left out if users say so."""

from __future__ import annotations

import logging
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.io.images import make_jpeg
from tests.io.tars import make_tar

from spdl.dataloader import ImageLoader, ImageShards
from spdl.io import FormatError, TarFile, iter_tarfile, load_npy, tar_index
from spdl.source import MappedRecords, ShardFailure, TarShards
from spdl.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS: dict[str, Callable[..., Any]] = {"TarShards": TarShards, "ImageShards": ImageShards}
TRUNCATED = r"2\.tar.* truncated: it ends after 0 of the \d+ bytes of "


@pytest.fixture
def pattern(tmp_path: Path) -> str:
    """Six archives of four samples each, of which the third is cut short and the fifth is missing."""
    for number in range(6):
        photo = make_jpeg(20, 20, seed=number)
        parts = {"jpg": photo, "cls": b"%d" % number}
        members = [(f"{number}{place}.{part}", content) for place in range(4) for part, content in parts.items()]
        (tmp_path / f"{number}.tar").write_bytes(make_tar(members))
    (tmp_path / "2.tar").write_bytes((tmp_path / "2.tar").read_bytes()[:3072])
    (tmp_path / "4.tar").unlink()
    return f"{tmp_path}/{{0..5}}.tar"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("limit", [2, 5, -1, Fraction(1, 3)])
def test_they_are_left_out_and_listed(
    kind: Any, limit: Any, pattern: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = kind(pattern, max_failures=limit)
    sound = kind([tmp_path / f"{number}.tar" for number in (0, 1, 3, 5)])
    assert sound.failures == []
    assert len(source) == 16
    assert source.fingerprint() == sound.fingerprint()
    copy = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own.
    cut, missing = source.failures
    assert isinstance(cut, ShardFailure)
    assert (cut.path, missing.path) == (f"{tmp_path}/2.tar", f"{tmp_path}/4.tar")
    assert "truncated" in cut.reason
    assert missing.reason.startswith("FileNotFoundError: ")
    assert copy.failures == [cut, missing]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [any(f"{number}.tar cannot be read" in text for text in warnings) for number in range(6)] == [
        number in (2, 4) for number in range(6)
    ]
    assert warnings[-1] == "2 of 6 archives are left out of the source"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(("limit", "allowed"), [(1, "1"), (Fraction(1, 4), "1/4 of them")])
def test_too_many_are_an_error(kind: Any, limit: Any, allowed: str, pattern: str, tmp_path: Path) -> None:
    message = f"2 of 6 archives cannot be read, and `max_failures` allows {allowed}: "
    with pytest.raises(FormatError, match=message) as it:
        kind(pattern, max_failures=limit)
    assert it.value.path == f"{tmp_path}/2.tar"
    assert "2.tar: FormatError: " in str(it.value)
    assert "4.tar: FileNotFoundError: " in str(it.value)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_none_may_be_broken_unless_users_say_so(kind: Any, pattern: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=TRUNCATED) as it:
        kind(tmp_path / "{0..3}.tar")
    assert it.value.path == f"{tmp_path}/2.tar"
    assert any("max_failures=1" in note for note in it.value.__notes__)
    with pytest.raises(FileNotFoundError, match="Of the 3 archives"):
        kind(pattern.replace("0..5", "3..5"))
    for wrong, error in (0.5, TypeError), (Fraction(3, 2), ValueError):
        with pytest.raises(error, match="`max_failures` must be"):
            kind(pattern, max_failures=wrong)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_one_must_be_left(kind: Any, tmp_path: Path, pattern: str) -> None:
    for each in (tmp_path / "2.tar", pattern.replace("0..5", "4,2")):
        with pytest.raises(FormatError, match="archives cannot be read, and none is left"):
            kind(each, max_failures=-1)


@pytest.mark.usefixtures("pattern")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_failing_storage_leaves_out_none(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "folder.tar").mkdir()
    with pytest.raises(OSError, match=r"folder\.tar"):
        kind([tmp_path / "0.tar", tmp_path / "folder.tar"], max_failures=-1)


@pytest.mark.usefixtures("pattern")
def test_archives_of_a_store_are_left_out(tmp_path: Path) -> None:
    samples = TarShards("{0..5}.tar", store=LocalStore(tmp_path), cache=tmp_path / "cache", max_failures=2)
    assert [failure.path for failure in samples.failures] == ["2.tar", "4.tar"]
    assert [bytes(sample["cls"]) for sample in samples] == [b"%d" % number for number in (0, 1, 3, 5) for _ in range(4)]


def test_what_ranks_get_is_of_the_others(pattern: str) -> None:
    samples = TarShards(pattern, max_failures=2)
    parts = [samples.split(rank, 2) for rank in range(2)]
    assert [len(part) for part in parts] == [8, 8]
    assert all(part.failures == samples.failures for part in parts)


def test_a_loader_takes_the_others(pattern: str) -> None:
    images = ImageShards(pattern, max_failures=2)
    batches = list(ImageLoader(images, 4, size=16, output="numpy"))
    assert [batch.label.tolist() for batch in batches] == [[number] * 4 for number in (0, 1, 3, 5)]


def test_an_archive_that_is_opened_late_fails_its_samples(pattern: str, tmp_path: Path) -> None:
    """A list of wids says how many samples there are, so an archive is opened for its first one."""
    TarShards(pattern, max_failures=2)
    (tmp_path / "list.json").write_text(
        '{"wids_version": 1, "shardlist": [{"url": "1.tar", "nsamples": 4}, {"url": "2.tar", "nsamples": 4}]}'
    )
    samples = TarShards(tmp_path / "list.json", max_failures=0)
    pairs = MappedRecords(samples, lambda parts: {"image": parts["jpg"], "label": int(bytes(parts["cls"]))})
    loader = ImageLoader(pairs, 4, size=16, output="numpy", on_error="skip")
    assert [batch.label.tolist() for batch in loader] == [[1] * 4]
    assert [failure.index for failure in loader.failures] == [4, 5, 6, 7]
    assert all("truncated" in failure.reason for failure in loader.failures)
    with pytest.raises(FormatError, match=TRUNCATED) as it:
        samples[4]
    assert it.value.path == f"{tmp_path}/2.tar"


@pytest.mark.usefixtures("pattern")
@pytest.mark.parametrize(
    "read", [tar_index, TarFile, lambda path: list(iter_tarfile(path)), load_npy], ids=["index", "file", "iter", "npy"]
)
def test_the_error_has_the_path(read: Any, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"2\.tar") as it:
        read(tmp_path / "2.tar")
    assert it.value.path == f"{tmp_path}/2.tar"
    assert pickle.loads(pickle.dumps(it.value)).path == f"{tmp_path}/2.tar"  # noqa: S301 - our own.
    with pytest.raises(FormatError) as it:
        list(iter_tarfile((tmp_path / "2.tar").read_bytes()))
    assert it.value.path is None
